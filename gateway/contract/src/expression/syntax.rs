//! CEL's grammar: tokens to a tree, by precedence.

use super::{
    CompileError, Value,
    token::{Token, TokenKind, tokens},
};

/// Brackets, calls and conditionals within each other.
pub(super) const MAX_NESTING: usize = 64;
/// Levels of the whole tree, chains such as `a + b + c` counted: what evaluation may recurse.
pub(super) const MAX_DEPTH: u16 = 128;
/// Bytes of one expression's source.
pub(super) const MAX_SOURCE: usize = 64 * 1024;

const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// An expression as it was written.
#[derive(Debug)]
pub(super) struct Ast<'s> {
    pub(super) kind: AstKind<'s>,
    pub(super) start: usize,
    pub(super) end: usize,
    depth: u16,
}

#[derive(Debug)]
pub(super) enum AstKind<'s> {
    Literal(Value<'static>),
    Ident(&'s str),
    Select(Box<Ast<'s>>, Name<'s>),
    Index(Box<Ast<'s>>, Box<Ast<'s>>),
    Call(Option<Box<Ast<'s>>>, Name<'s>, Vec<Ast<'s>>),
    List(Vec<Ast<'s>>),
    Map(Vec<(Ast<'s>, Ast<'s>)>),
    Not(Box<Ast<'s>>),
    Negate(Box<Ast<'s>>),
    Binary(Operator, Box<Ast<'s>>, Box<Ast<'s>>),
    And(Vec<Ast<'s>>),
    Or(Vec<Ast<'s>>),
    Conditional(Box<[Ast<'s>; 3]>),
}

/// A name and where it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Name<'s> {
    pub(super) text: &'s str,
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Operator {
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::In => "in",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        }
    }

    fn of(kind: &TokenKind<'_>) -> Option<(Self, u8)> {
        let symbol = match kind {
            TokenKind::Symbol(symbol) => symbol,
            TokenKind::Ident("in") => "in",
            _ => return None,
        };
        Some(match symbol {
            "==" => (Self::Equal, RELATION),
            "!=" => (Self::NotEqual, RELATION),
            "<" => (Self::Less, RELATION),
            "<=" => (Self::LessEqual, RELATION),
            ">" => (Self::Greater, RELATION),
            ">=" => (Self::GreaterEqual, RELATION),
            "in" => (Self::In, RELATION),
            "+" => (Self::Add, SUM),
            "-" => (Self::Subtract, SUM),
            "*" => (Self::Multiply, PRODUCT),
            "/" => (Self::Divide, PRODUCT),
            "%" => (Self::Remainder, PRODUCT),
            _ => return None,
        })
    }
}

const RELATION: u8 = 1;
const SUM: u8 = 2;
const PRODUCT: u8 = 3;

pub(super) fn parse(source: &str) -> Result<Ast<'_>, CompileError> {
    if source.len() > MAX_SOURCE {
        return Err(CompileError::new(MAX_SOURCE, 0, format!("the expression is longer than {MAX_SOURCE} bytes")));
    }
    let mut parser = Parser { tokens: tokens(source)?, at: 0, nesting: 0 };
    if parser.tokens.len() == 1 {
        return Err(CompileError::new(0, source.len(), "the expression is empty"));
    }
    let ast = parser.expression()?;
    match parser.peek().kind {
        TokenKind::End => Ok(ast),
        _ => Err(parser.unexpected("an operator or the end")),
    }
}

struct Parser<'s> {
    tokens: Vec<Token<'s>>,
    at: usize,
    nesting: usize,
}

impl<'s> Parser<'s> {
    fn peek(&self) -> &Token<'s> {
        // Invariant: the last token is `End`, and `advance` never passes it.
        &self.tokens[self.at]
    }

    fn advance(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.peek().kind, TokenKind::Symbol(found) if found == symbol)
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, symbol: &'static str, wanted: &str) -> Result<usize, CompileError> {
        let end = self.peek().end;
        if self.take(symbol) { Ok(end) } else { Err(self.unexpected(wanted)) }
    }

    #[cold]
    fn unexpected(&self, wanted: &str) -> CompileError {
        let token = self.peek();
        let length = token.end - token.start;
        let fault = match &token.kind {
            TokenKind::End => CompileError::new(token.start, 0, format!("the expression ends where {wanted} was expected")),
            TokenKind::Symbol(symbol) => CompileError::new(token.start, length, format!("expected {wanted}, found '{symbol}'")),
            TokenKind::Ident(name) => CompileError::new(token.start, length, format!("expected {wanted}, found '{name}'")),
            _ => CompileError::new(token.start, length, format!("expected {wanted}")),
        };
        match token.kind {
            TokenKind::Ident("and") => fault.help("'and' is written '&&'"),
            TokenKind::Ident("or") => fault.help("'or' is written '||'"),
            TokenKind::Ident("not") => fault.help("'not' is written '!'"),
            TokenKind::Ident("is") => fault.help("equality is written '=='"),
            TokenKind::Symbol("{") if wanted.starts_with("an operator") => fault.help("messages cannot be built; a map is {'key': value}"),
            _ => fault,
        }
    }

    fn node(&self, kind: AstKind<'s>, start: usize, end: usize, below: u16) -> Result<Ast<'s>, CompileError> {
        if below >= MAX_DEPTH {
            return Err(CompileError::new(start, end - start, format!("the expression is deeper than {MAX_DEPTH} levels")));
        }
        Ok(Ast { kind, start, end, depth: below + 1 })
    }

    fn expression(&mut self) -> Result<Ast<'s>, CompileError> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            let token = self.peek();
            return Err(CompileError::new(token.start, token.end - token.start, format!("nested deeper than {MAX_NESTING} levels")));
        }
        let condition = self.chain("||")?;
        let ast = if self.take("?") {
            let then = self.chain("||")?;
            self.expect(":", "':' of the conditional")?;
            let otherwise = self.expression()?;
            let depth = condition.depth.max(then.depth).max(otherwise.depth);
            let (start, end) = (condition.start, otherwise.end);
            self.node(AstKind::Conditional(Box::new([condition, then, otherwise])), start, end, depth)?
        } else {
            condition
        };
        self.nesting -= 1;
        Ok(ast)
    }

    /// `a || b || c` and `a && b && c`, each flat.
    fn chain(&mut self, symbol: &'static str) -> Result<Ast<'s>, CompileError> {
        let operand = |parser: &mut Self| if symbol == "||" { parser.chain("&&") } else { parser.binary(RELATION) };
        let first = operand(self)?;
        if !self.is(symbol) {
            return Ok(first);
        }
        let (start, mut end, mut depth) = (first.start, first.end, first.depth);
        let mut operands = vec![first];
        while self.take(symbol) {
            let next = operand(self)?;
            end = next.end;
            depth = depth.max(next.depth);
            operands.push(next);
        }
        self.node(if symbol == "||" { AstKind::Or(operands) } else { AstKind::And(operands) }, start, end, depth)
    }

    fn binary(&mut self, weakest: u8) -> Result<Ast<'s>, CompileError> {
        let mut left = self.unary()?;
        while let Some((operator, strength)) = Operator::of(&self.peek().kind) {
            if strength < weakest {
                break;
            }
            self.advance();
            let right = self.binary(strength + 1)?;
            let (start, end, depth) = (left.start, right.end, left.depth.max(right.depth));
            left = self.node(AstKind::Binary(operator, Box::new(left), Box::new(right)), start, end, depth)?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Ast<'s>, CompileError> {
        let start = self.peek().start;
        let symbol = match self.peek().kind {
            TokenKind::Symbol(symbol @ ("!" | "-")) => symbol,
            _ => return self.member(),
        };
        let mut count = 0;
        while self.take(symbol) {
            count += 1;
            // The one integer that fits only with its sign.
            if symbol == "-"
                && let TokenKind::Int(magnitude) = self.peek().kind
            {
                count -= 1;
                let (end, negated) = (self.peek().end, 0i64.checked_sub_unsigned(magnitude));
                let Some(value) = negated else {
                    return Err(CompileError::new(start, end - start, "the integer does not fit into 64 bits"));
                };
                self.advance();
                let literal = self.node(AstKind::Literal(Value::Int(value)), start, end, 0)?;
                let operand = self.suffixes(literal)?;
                return self.repeat(symbol, count, operand, start);
            }
        }
        // A mixture such as `!-a` comes back here; the depth of the tree bounds it.
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(CompileError::new(start, 1, format!("nested deeper than {MAX_NESTING} levels")));
        }
        let operand = self.unary()?;
        self.nesting -= 1;
        self.repeat(symbol, count, operand, start)
    }

    fn repeat(&self, symbol: &str, count: usize, operand: Ast<'s>, start: usize) -> Result<Ast<'s>, CompileError> {
        (0..count).try_fold(operand, |operand, _| {
            let (end, depth) = (operand.end, operand.depth);
            let kind = if symbol == "!" { AstKind::Not(Box::new(operand)) } else { AstKind::Negate(Box::new(operand)) };
            self.node(kind, start, end, depth)
        })
    }

    fn member(&mut self) -> Result<Ast<'s>, CompileError> {
        let primary = self.primary()?;
        self.suffixes(primary)
    }

    fn suffixes(&mut self, mut ast: Ast<'s>) -> Result<Ast<'s>, CompileError> {
        loop {
            if self.take(".") {
                let name = self.field()?;
                let (start, depth) = (ast.start, ast.depth);
                ast = if self.take("(") {
                    let (arguments, end, below) = self.list(")", "',' or ')'")?;
                    self.node(AstKind::Call(Some(Box::new(ast)), name, arguments), start, end, depth.max(below))?
                } else {
                    self.node(AstKind::Select(Box::new(ast), name), start, name.end, depth)?
                };
            } else if self.take("[") {
                let index = self.expression()?;
                let end = self.expect("]", "']'")?;
                let (start, depth) = (ast.start, ast.depth.max(index.depth));
                ast = self.node(AstKind::Index(Box::new(ast), Box::new(index)), start, end, depth)?;
            } else {
                return Ok(ast);
            }
        }
    }

    fn field(&mut self) -> Result<Name<'s>, CompileError> {
        let token = self.peek();
        let (start, end) = (token.start, token.end);
        match token.kind {
            TokenKind::Ident(text) | TokenKind::Quoted(text) => {
                self.advance();
                Ok(Name { text, start, end })
            }
            TokenKind::Literal(_) | TokenKind::Int(_) => {
                Err(self.unexpected("a name after '.'").help("an item of a list is written list[0], a member of any name map['name']"))
            }
            _ => Err(self.unexpected("a name after '.'")),
        }
    }

    fn primary(&mut self) -> Result<Ast<'s>, CompileError> {
        let token = self.peek().clone();
        let (start, end) = (token.start, token.end);
        match token.kind {
            TokenKind::Literal(value) => {
                self.advance();
                self.node(AstKind::Literal(value), start, end, 0)
            }
            TokenKind::Int(magnitude) => {
                self.advance();
                match i64::try_from(magnitude) {
                    Ok(value) => self.node(AstKind::Literal(Value::Int(value)), start, end, 0),
                    Err(_) => Err(CompileError::new(start, end - start, "the integer does not fit into 64 bits")
                        .help("an unsigned integer ends in 'u'")),
                }
            }
            TokenKind::Ident("in") => Err(self.unexpected("a value")),
            TokenKind::Ident(text) => {
                if RESERVED.contains(&text) {
                    return Err(CompileError::new(start, end - start, format!("'{text}' is a reserved word")));
                }
                self.advance();
                if self.take("(") {
                    let (arguments, close, depth) = self.list(")", "',' or ')'")?;
                    return self.node(AstKind::Call(None, Name { text, start, end }, arguments), start, close, depth);
                }
                self.node(AstKind::Ident(text), start, end, 0)
            }
            TokenKind::Symbol("(") => {
                self.advance();
                let mut inner = self.expression()?;
                inner.end = self.expect(")", "an operator or ')'")?;
                inner.start = start;
                Ok(inner)
            }
            TokenKind::Symbol("[") => {
                self.advance();
                let (items, end, depth) = self.list("]", "',' or ']'")?;
                self.node(AstKind::List(items), start, end, depth)
            }
            TokenKind::Symbol("{") => {
                self.advance();
                self.map(start)
            }
            // A leading dot names the outermost scope in CEL; here every name is there.
            TokenKind::Symbol(".") => {
                self.advance();
                match self.peek().kind {
                    TokenKind::Ident(_) => self.primary(),
                    _ => Err(self.unexpected("a name after '.'")),
                }
            }
            _ => Err(self.unexpected("a value")),
        }
    }

    /// Expressions with commas between, up to `close`; a trailing comma is allowed in lists.
    fn list(&mut self, close: &'static str, wanted: &str) -> Result<(Vec<Ast<'s>>, usize, u16), CompileError> {
        let (mut items, mut depth) = (Vec::new(), 0);
        loop {
            if self.is(close) && (items.is_empty() || close == "]") {
                break;
            }
            let item = self.expression()?;
            depth = depth.max(item.depth);
            items.push(item);
            if !self.take(",") {
                break;
            }
        }
        let end = self.expect(close, wanted)?;
        Ok((items, end, depth))
    }

    fn map(&mut self, start: usize) -> Result<Ast<'s>, CompileError> {
        let (mut entries, mut depth) = (Vec::new(), 0);
        while !self.is("}") {
            let key = self.expression()?;
            self.expect(":", "':' after a map's key")?;
            let value = self.expression()?;
            depth = key.depth.max(value.depth).max(depth);
            entries.push((key, value));
            if !self.take(",") {
                break;
            }
        }
        let end = self.expect("}", "',' or '}'")?;
        self.node(AstKind::Map(entries), start, end, depth)
    }
}
