//! From what was written to what is evaluated: names looked up by place, macros opened, constants folded, kinds that never fit refused.

use regex::RegexBuilder;

use super::{
    CompileError, Names, Reads, Root, Value, closest,
    functions::{self, Function},
    names::Found,
    node::{Macro, MacroParts, Node, Op, Step},
    syntax::{Ast, AstKind, Name, Operator},
};

/// What is known of a value before it is there. Any may turn out null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Any,
    Bool,
    Number,
    Text,
    Bytes,
    List,
    Map,
}

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Self::Any => "anything",
            Self::Bool => "a boolean",
            Self::Number => "a number",
            Self::Text => "text",
            Self::Bytes => "bytes",
            Self::List => "a list",
            Self::Map => "a map",
        }
    }

    fn of(value: &Value<'_>) -> Self {
        match value {
            Value::Bool(_) => Self::Bool,
            Value::Int(_) | Value::UInt(_) | Value::Float(_) => Self::Number,
            Value::Str(_) => Self::Text,
            Value::Bytes(_) => Self::Bytes,
            Value::List(_) => Self::List,
            Value::Map(_) => Self::Map,
            _ => Self::Any,
        }
    }
}

pub(super) struct Resolved {
    pub(super) node: Node,
    pub(super) reads: Reads,
    pub(super) tasks: Vec<u16>,
    pub(super) secrets: Vec<Box<str>>,
}

pub(super) fn resolve(ast: &Ast<'_>, names: &Names<'_>, condition: bool) -> Result<Resolved, Vec<CompileError>> {
    let mut resolver =
        Resolver { names, locals: Vec::new(), faults: Vec::new(), reads: Reads::default(), tasks: Vec::new(), secrets: Vec::new() };
    let (node, shape) = resolver.node(ast);
    if condition && resolver.faults.is_empty() && !matches!(shape, Shape::Any | Shape::Bool) {
        let fault = CompileError::new(ast.start, ast.end - ast.start, format!("a condition is true or false, this is {}", shape.name()));
        resolver.faults.push(fault.help("compare it, as in x == 'a' or x != null"));
    }
    if !resolver.faults.is_empty() {
        resolver.faults.sort_by_key(|fault| fault.offset);
        return Err(resolver.faults);
    }
    Ok(Resolved { node, reads: resolver.reads, tasks: resolver.tasks, secrets: resolver.secrets })
}

struct Resolver<'s, 'n> {
    names: &'n Names<'n>,
    locals: Vec<&'s str>,
    faults: Vec<CompileError>,
    reads: Reads,
    tasks: Vec<u16>,
    secrets: Vec<Box<str>>,
}

fn at(op: Op, ast: &Ast<'_>) -> Node {
    Node { op, start: ast.start as u32, end: ast.end as u32 }
}

impl<'s> Resolver<'s, '_> {
    fn node(&mut self, ast: &Ast<'s>) -> (Node, Shape) {
        let (op, shape) = match &ast.kind {
            AstKind::Literal(value) => (Op::Constant(value.clone()), Shape::of(value)),
            AstKind::Ident(name) => self.ident(ast, name),
            AstKind::Select(target, name) => self.select(target, *name),
            AstKind::Index(target, index) => self.index(target, index),
            AstKind::Call(target, name, arguments) => self.call(target.as_deref(), *name, arguments),
            AstKind::List(items) => (self.list(items), Shape::List),
            AstKind::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| (self.node(key).0, self.node(value).0)).collect();
                (Op::Map(entries), Shape::Map)
            }
            AstKind::Not(operand) => (Op::Not(Box::new(self.truth(operand, "!"))), Shape::Bool),
            AstKind::Negate(operand) => self.negate(operand),
            AstKind::And(operands) => (Op::And(operands.iter().map(|operand| self.truth(operand, "&&")).collect()), Shape::Bool),
            AstKind::Or(operands) => (Op::Or(operands.iter().map(|operand| self.truth(operand, "||")).collect()), Shape::Bool),
            AstKind::Conditional(parts) => {
                let [condition, then, otherwise] = parts.as_ref();
                let condition = self.truth(condition, "?:");
                let (then, left) = self.node(then);
                let (otherwise, right) = self.node(otherwise);
                let shape = if left == right { left } else { Shape::Any };
                (Op::Conditional(Box::new([condition, then, otherwise])), shape)
            }
            AstKind::Binary(operator, left, right) => self.binary(*operator, left, right, ast),
        };
        (at(op, ast), shape)
    }

    fn fault(&mut self, fault: CompileError) -> (Op, Shape) {
        self.faults.push(fault);
        (Op::Constant(Value::Null), Shape::Any)
    }

    fn root(&mut self, root: Root) -> (Op, Shape) {
        self.reads.add(root);
        if let Root::Task(number) | Root::TaskCall(number) | Root::TaskHeaders(number) = root
            && !self.tasks.contains(&number)
        {
            self.tasks.push(number);
        }
        let shape = match root {
            Root::Body | Root::ResponseBody | Root::Task(_) | Root::Item => Shape::Any,
            Root::Error => Shape::Text,
            _ => Shape::Map,
        };
        (Op::Root(root), shape)
    }

    fn ident(&mut self, ast: &Ast<'s>, name: &'s str) -> (Op, Shape) {
        if let Some(slot) = self.locals.iter().rposition(|local| *local == name) {
            return (Op::Local(slot), Shape::Any);
        }
        match self.names.find(name, ast.start, ast.end) {
            Ok(Found::Root(root)) => {
                if root == Root::Response {
                    self.reads.add_whole_response();
                }
                self.root(root)
            }
            Ok(Found::Tasks) => {
                self.fault(CompileError::new(ast.start, ast.end - ast.start, "tasks are read one by one").help("write tasks.LABEL.status"))
            }
            Err(_) if functions::is_type(name) => (Op::Constant(Value::Type(functions::type_name(name))), Shape::Any),
            Err(fault) => self.fault(fault),
        }
    }

    fn select(&mut self, target: &Ast<'s>, name: Name<'s>) -> (Op, Shape) {
        if let AstKind::Ident("tasks") = target.kind
            && !self.locals.contains(&"tasks")
            && let Ok(Found::Tasks) = self.names.find("tasks", target.start, target.end)
        {
            return match self.names.find(name.text, name.start, name.end) {
                Ok(Found::Root(Root::Task(number))) => self.root(Root::TaskCall(number)),
                Err(fault) if self.names.later.contains(&name.text) => self.fault(fault),
                _ => {
                    let fault = CompileError::new(name.start, name.end - name.start, format!("there is no task '{}'", name.text));
                    let near = closest(name.text, self.names.tasks.iter().copied());
                    self.fault(match near {
                        Some(near) => fault.help(format!("did you mean '{near}'?")),
                        None => fault,
                    })
                }
            };
        }
        let (base, shape) = self.target(target);
        self.step(base, shape, name)
    }

    /// What a name is taken from: of `response`, only what is taken is read.
    fn target(&mut self, target: &Ast<'s>) -> (Node, Shape) {
        let before = self.reads;
        let (node, shape) = self.node(target);
        if let Op::Root(Root::Response) = node.op {
            self.reads = before;
            self.reads.add(Root::Response);
        }
        (node, shape)
    }

    /// One name further from `base`.
    fn step(&mut self, base: Node, shape: Shape, name: Name<'_>) -> (Op, Shape) {
        if let Op::Root(root) = base.op {
            return self.field(base, root, name);
        }
        if !matches!(shape, Shape::Any | Shape::Map) {
            let fault = CompileError::new(name.start, name.end - name.start, format!("{} has no members", shape.name()));
            let method = functions::exists(name.text);
            return self.fault(if method { fault.help(format!("a function is called: {}()", name.text)) } else { fault });
        }
        (path(base, Step::Key(name.text.into())), Shape::Any)
    }

    fn field(&mut self, base: Node, root: Root, name: Name<'_>) -> (Op, Shape) {
        if let Err(fault) = self.names.check_field(root, name.text, name.start, name.end) {
            return self.fault(fault);
        }
        match (root, name.text) {
            (Root::Body | Root::ResponseBody | Root::Task(_) | Root::Item, _) => (path(base, Step::Key(name.text.into())), Shape::Any),
            (Root::Error, _) => self.fault(CompileError::new(name.start, name.end - name.start, "error is text, it has no members")),
            (Root::Response, "headers") => self.root(Root::ResponseHeaders),
            (Root::Response, "body") => self.root(Root::ResponseBody),
            (Root::TaskCall(number), "headers") => self.root(Root::TaskHeaders(number)),
            (Root::Response | Root::TaskCall(_), "status") => (Op::Field(root, name.text.into()), Shape::Number),
            (Root::Headers | Root::ResponseHeaders | Root::TaskHeaders(_), header) => {
                (Op::Field(root, header.to_ascii_lowercase().into()), Shape::Text)
            }
            (Root::Request | Root::Path | Root::Query | Root::Cookies, _) => (Op::Field(root, name.text.into()), Shape::Text),
            _ => (Op::Field(root, name.text.into()), Shape::Any),
        }
    }

    fn index(&mut self, target: &Ast<'s>, index: &Ast<'s>) -> (Op, Shape) {
        if let AstKind::Literal(Value::Str(text)) = &index.kind {
            let text = text.clone();
            let name = Name { text: &text, start: index.start, end: index.end };
            if let AstKind::Ident("tasks") = target.kind
                && !self.locals.contains(&"tasks")
            {
                return self.fault(
                    CompileError::new(index.start, index.end - index.start, "tasks are read by their labels")
                        .help(format!("write tasks.{text}")),
                );
            }
            let (base, shape) = self.target(target);
            return self.step(base, shape, name);
        }
        let (base, shape) = self.node(target);
        if matches!(shape, Shape::Bool | Shape::Number | Shape::Text | Shape::Bytes) {
            return self.fault(CompileError::new(target.start, target.end - target.start, format!("{} has no items", shape.name())));
        }
        if let (AstKind::Literal(Value::Int(number)), Op::Root(_) | Op::Field(..) | Op::Path(..) | Op::Local(_)) = (&index.kind, &base.op)
            && shape == Shape::Any
            && let Ok(number) = usize::try_from(*number)
        {
            return (path(base, Step::Item(number)), Shape::Any);
        }
        let (index, _) = self.node(index);
        (Op::Index(Box::new([base, index])), Shape::Any)
    }

    fn list(&mut self, items: &[Ast<'s>]) -> Op {
        let items: Box<[Node]> = items.iter().map(|item| self.node(item).0).collect();
        let constant = |node: &Node| match &node.op {
            Op::Constant(value) => Some(value.clone()),
            _ => None,
        };
        match items.iter().map(constant).collect::<Option<Vec<_>>>() {
            Some(values) => Op::Constant(Value::list(values)),
            None => Op::List(items),
        }
    }

    /// An operand that is asked whether it is true.
    fn truth(&mut self, ast: &Ast<'s>, operator: &str) -> Node {
        let (node, shape) = self.node(ast);
        if !matches!(shape, Shape::Any | Shape::Bool) {
            let fault =
                CompileError::new(ast.start, ast.end - ast.start, format!("'{operator}' takes true or false, this is {}", shape.name()));
            self.faults.push(fault.help("compare it, as in x == 'a' or x != null"));
        }
        node
    }

    fn negate(&mut self, operand: &Ast<'s>) -> (Op, Shape) {
        let (node, shape) = self.node(operand);
        match &node.op {
            Op::Constant(Value::Float(number)) => return (Op::Constant(Value::Float(-number)), Shape::Number),
            _ if !matches!(shape, Shape::Any | Shape::Number) => {
                let fault =
                    CompileError::new(operand.start, operand.end - operand.start, format!("'-' takes a number, this is {}", shape.name()));
                return self.fault(fault);
            }
            _ => {}
        }
        (Op::Negate(Box::new(node)), Shape::Number)
    }

    fn binary(&mut self, operator: Operator, left: &Ast<'s>, right: &Ast<'s>, whole: &Ast<'s>) -> (Op, Shape) {
        let before = self.faults.len();
        let (left_node, left_shape) = self.node(left);
        // `headers.x-channel` is a subtraction; say so instead of "no name 'channel'".
        if operator == Operator::Subtract
            && self.faults.len() == before
            && let (Op::Field(Root::Headers | Root::Cookies | Root::Query | Root::ResponseHeaders, _), AstKind::Select(target, name)) =
                (&left_node.op, &left.kind)
            && let AstKind::Ident(rest) = right.kind
            && left.end + 1 == right.start
            && let AstKind::Ident(owner) = target.kind
        {
            let fault = CompileError::new(left.start, right.end - left.start, format!("'{}-{rest}' is read as a subtraction", name.text));
            return self.fault(fault.help(format!("write {owner}['{}-{rest}']", name.text)));
        }
        let (right_node, right_shape) = self.node(right);
        let shape = match self.operate(operator, left_shape, right_shape) {
            Ok(shape) => shape,
            // One fault is enough: what an operand is was never known.
            Err(_) if self.faults.len() > before => return (Op::Constant(Value::Null), Shape::Any),
            Err(message) => {
                let fault = CompileError::new(whole.start, whole.end - whole.start, message);
                let text = matches!((left_shape, right_shape), (Shape::Text, Shape::Number) | (Shape::Number, Shape::Text));
                return self.fault(if text { fault.help("convert one of them: int(x), double(x) or string(x)") } else { fault });
            }
        };
        (Op::Binary(operator, Box::new([left_node, right_node])), shape)
    }

    /// The shape of `left operator right`, or why it can never be.
    fn operate(&self, operator: Operator, left: Shape, right: Shape) -> Result<Shape, String> {
        use Shape::{Any, Bool, Bytes, List, Map, Number, Text};
        let never = || Err(format!("'{}' does not take {} and {}", operator.symbol(), left.name(), right.name()));
        let same = left == right || left == Any || right == Any;
        match operator {
            Operator::Equal | Operator::NotEqual if same => Ok(Bool),
            Operator::Equal | Operator::NotEqual => Err(format!("{} is never equal to {}", left.name(), right.name())),
            Operator::Less | Operator::LessEqual | Operator::Greater | Operator::GreaterEqual => {
                if same && !matches!((left, right), (List | Map, _) | (_, List | Map)) { Ok(Bool) } else { never() }
            }
            Operator::In if matches!(right, Any | List | Map) => Ok(Bool),
            Operator::In if right == Text => Err("'in' looks into lists and maps, not into text; a text has contains()".to_owned()),
            Operator::In => never(),
            Operator::Add => match (left, right) {
                (Bool | Map, _) | (_, Bool | Map) => never(),
                (Number | Text | Bytes | List, _) if same => Ok(left),
                (Any, right) => Ok(right),
                _ => never(),
            },
            _ if matches!(left, Any | Number) && matches!(right, Any | Number) => Ok(Number),
            _ => never(),
        }
    }

    fn call(&mut self, target: Option<&Ast<'s>>, name: Name<'s>, arguments: &[Ast<'s>]) -> (Op, Shape) {
        match (target, name.text, arguments) {
            (None, "has", _) => return self.has(name, arguments),
            (None, "secret", _) => return self.secret(name, arguments),
            (Some(range), "all" | "exists" | "exists_one" | "existsOne" | "filter" | "map", _) => {
                return self.comprehension(range, name, arguments);
            }
            _ => {}
        }
        let all: Vec<&Ast<'s>> = target.into_iter().chain(arguments).collect();
        let function = match functions::find(name.text, target.is_some(), all.len()) {
            Ok(function) => function,
            Err(fault) => {
                // Faults within the arguments are told in the same breath.
                if !functions::is_macro(name.text) {
                    all.iter().for_each(|argument| drop(self.node(argument)));
                }
                return self.fault(CompileError { offset: name.start, len: name.end - name.start, ..fault });
            }
        };
        if let Function::Matches = function {
            return self.matches(all[0], all[1]);
        }
        let mut nodes = Vec::with_capacity(all.len());
        for (number, argument) in all.iter().enumerate() {
            let (node, shape) = self.node(argument);
            let takes = function.takes(number);
            if shape != Shape::Any && !takes.is_empty() && !takes.contains(&shape) {
                let fault = format!("{}() does not take {} here", name.text, shape.name());
                self.faults.push(CompileError::new(argument.start, argument.end - argument.start, fault));
            }
            nodes.push(node);
        }
        (Op::Call(function, nodes.into()), function.gives())
    }

    fn has(&mut self, name: Name<'s>, arguments: &[Ast<'s>]) -> (Op, Shape) {
        let [argument] = arguments else {
            return self.fault(CompileError::new(name.start, name.end - name.start, "has() takes one member, as in has(body.id)"));
        };
        if !matches!(argument.kind, AstKind::Select(..) | AstKind::Index(..)) {
            return self.fault(CompileError::new(
                argument.start,
                argument.end - argument.start,
                "has() takes a member, as in has(body.id)",
            ));
        }
        let (node, _) = self.node(argument);
        let op = match node.op {
            Op::Path(base, steps) => {
                let mut steps = Vec::from(steps);
                match steps.pop() {
                    Some(Step::Key(key)) => Op::Has(Box::new(rebuild(*base, steps)), key),
                    last => {
                        steps.extend(last);
                        Op::Present(Box::new(rebuild(*base, steps)))
                    }
                }
            }
            op => Op::Present(Box::new(Node { op, ..node })),
        };
        (op, Shape::Bool)
    }

    fn secret(&mut self, name: Name<'s>, arguments: &[Ast<'s>]) -> (Op, Shape) {
        if !self.names.secrets {
            let fault = CompileError::new(name.start, name.end - name.start, "a secret may not be read here");
            return self.fault(fault.help("secret('NAME') stands only in send and in headers"));
        }
        match arguments {
            [Ast { kind: AstKind::Literal(Value::Str(secret)), .. }] => {
                let secret: Box<str> = secret.as_ref().into();
                self.reads.add_secret();
                if !self.secrets.contains(&secret) {
                    self.secrets.push(secret.clone());
                }
                (Op::Secret(secret), Shape::Text)
            }
            _ => {
                self.fault(CompileError::new(name.start, name.end - name.start, "secret() takes one literal name, as in secret('API_KEY')"))
            }
        }
    }

    fn matches(&mut self, target: &Ast<'s>, pattern: &Ast<'s>) -> (Op, Shape) {
        let (node, shape) = self.node(target);
        if !matches!(shape, Shape::Any | Shape::Text) {
            let fault = format!("matches() does not take {} here", shape.name());
            self.faults.push(CompileError::new(target.start, target.end - target.start, fault));
        }
        let span = |message: String| CompileError::new(pattern.start, pattern.end - pattern.start, message);
        let AstKind::Literal(Value::Str(text)) = &pattern.kind else {
            return self.fault(span("matches() takes a literal pattern only".to_owned()));
        };
        match RegexBuilder::new(text).size_limit(1 << 20).build() {
            Ok(regex) => (Op::Matches(Box::new(node), Box::new(regex)), Shape::Bool),
            Err(regex::Error::CompiledTooBig(_)) => self.fault(span("the pattern is too large".to_owned())),
            Err(fault) => {
                let message = fault.to_string();
                let reason = message.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                let fault = span(format!("the pattern is no regular expression: {reason}"));
                let look = text.contains("(?=") || text.contains("(?!") || text.contains("(?<=") || text.contains("(?<!");
                self.fault(if look {
                    fault.help("look-around and back-references are not built: matching takes linear time")
                } else {
                    fault
                })
            }
        }
    }

    fn comprehension(&mut self, range: &Ast<'s>, name: Name<'s>, arguments: &[Ast<'s>]) -> (Op, Shape) {
        let (kind, shape) = match name.text {
            "all" => (Macro::All, Shape::Bool),
            "exists" => (Macro::Exists, Shape::Bool),
            "filter" => (Macro::Filter, Shape::List),
            "map" => (Macro::Map, Shape::List),
            _ => (Macro::ExistsOne, Shape::Bool),
        };
        let (variable, test, result) = match (kind, arguments) {
            (Macro::Map, [variable, result]) => (variable, None, Some(result)),
            (Macro::Map, [variable, test, result]) => (variable, Some(test), Some(result)),
            (Macro::All | Macro::Exists | Macro::ExistsOne | Macro::Filter, [variable, test]) => (variable, Some(test), None),
            _ => {
                let fault = format!("{}() takes a variable and an expression, as in list.{}(x, …)", name.text, name.text);
                return self.fault(CompileError::new(name.start, name.end - name.start, fault));
            }
        };
        let AstKind::Ident(variable_name) = variable.kind else {
            let fault = format!("{}() takes a variable's name first", name.text);
            return self.fault(CompileError::new(variable.start, variable.end - variable.start, fault));
        };
        let (range_node, range_shape) = self.node(range);
        if matches!(range_shape, Shape::Bool | Shape::Number | Shape::Text | Shape::Bytes) {
            let fault = format!("{}() goes through a list or map, this is {}", name.text, range_shape.name());
            self.faults.push(CompileError::new(range.start, range.end - range.start, fault));
        }
        self.locals.push(variable_name);
        let test = test.map(|test| self.truth(test, name.text));
        let result = result.map(|result| self.node(result).0);
        self.locals.pop();
        (Op::Macro(kind, Box::new(MacroParts { range: range_node, test, result })), shape)
    }
}

/// `base` with one more step.
fn path(base: Node, step: Step) -> Op {
    let Node { op, start, end } = base;
    match op {
        Op::Path(base, steps) => {
            let mut steps = Vec::from(steps);
            steps.push(step);
            Op::Path(base, steps.into())
        }
        op => Op::Path(Box::new(Node { op, start, end }), Box::new([step])),
    }
}

fn rebuild(base: Node, steps: Vec<Step>) -> Node {
    if steps.is_empty() {
        return base;
    }
    let (start, end) = (base.start, base.end);
    Node { op: Op::Path(Box::new(base), steps.into()), start, end }
}
