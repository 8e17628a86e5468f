//! Evaluation: one walk over a compiled expression, with the null rules and a budget of work.

mod call;
mod compare;

use std::{borrow::Cow, sync::Arc};

use super::{
    EvalError, EvalErrorKind, Json, Number, Root, Scope, Value,
    iterate::Each,
    node::{Macro, MacroParts, Node, Op, Step},
    syntax::Operator,
};

/// What one evaluation may do: a unit is a node visited, eight members searched or 64 bytes handled, some tens of nanoseconds each.
pub(super) const BUDGET: usize = 200_000;
/// What a new text, list or map costs: an allocation and its end.
const MAKING: usize = 3;
/// The longest text that an expression may make.
pub(super) const MAX_TEXT: usize = 1 << 20;

type Result<T> = std::result::Result<T, EvalError>;

pub(super) fn evaluate<'a>(node: &'a Node, scope: &'a dyn Scope) -> Result<Value<'a>> {
    Evaluation { scope, locals: Vec::new(), left: BUDGET }.eval(node)
}

struct Evaluation<'a> {
    scope: &'a dyn Scope,
    /// Values of the comprehensions' variables, outermost first.
    locals: Vec<Value<'a>>,
    left: usize,
}

fn error(kind: EvalErrorKind) -> EvalError {
    EvalError::new(kind, None)
}

#[cold]
fn type_error(message: String) -> EvalError {
    EvalError::new(EvalErrorKind::Type, Some(message))
}

impl<'a> Evaluation<'a> {
    /// The value of `node`; an error gets the place of the innermost node that failed.
    fn eval(&mut self, node: &'a Node) -> Result<Value<'a>> {
        self.charge(1).and_then(|()| self.visit(node)).map_err(|error| match error.len {
            0 => EvalError { offset: node.start, len: node.end - node.start, ..error },
            _ => error,
        })
    }

    fn charge(&mut self, units: usize) -> Result<()> {
        match self.left.checked_sub(units) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(error(EvalErrorKind::Budget)),
        }
    }

    fn visit(&mut self, node: &'a Node) -> Result<Value<'a>> {
        Ok(match &node.op {
            Op::Constant(value) => value.borrowed(),
            Op::Root(root) => self.scope.root(*root),
            Op::Field(root, name) => self.scope.field(*root, name),
            Op::Path(base, steps) => return self.path(base, steps),
            Op::Index(parts) => return self.index(&parts[0], &parts[1]),
            Op::Has(base, key) => {
                let base = self.eval(base)?;
                self.charge(base.len().unwrap_or(0) / 8)?;
                Value::Bool(base.has(key))
            }
            Op::Present(node) => Value::Bool(!self.eval(node)?.is_null()),
            Op::Local(slot) => self.locals.get(*slot).cloned().unwrap_or_default(),
            Op::Secret(name) => self.scope.secret(name),
            Op::Not(operand) => Value::Bool(!self.truth(operand)?),
            Op::Negate(operand) => return self.negate(operand),
            Op::And(operands) => return self.all(operands, false),
            Op::Or(operands) => return self.all(operands, true),
            Op::Conditional(parts) => {
                let [condition, then, otherwise] = parts.as_ref();
                return if self.truth(condition)? { self.eval(then) } else { self.eval(otherwise) };
            }
            Op::Binary(operator, operands) => return self.binary(*operator, &operands[0], &operands[1]),
            Op::List(items) => {
                self.charge(MAKING)?;
                let mut values = Vec::with_capacity(items.len());
                for item in items {
                    let value = self.eval(item)?;
                    self.weigh(&value)?;
                    values.push(value);
                }
                Value::list(values)
            }
            Op::Map(entries) => return self.map(entries),
            Op::Call(function, arguments) => return self.call(*function, arguments),
            Op::Matches(target, regex) => {
                let target = self.eval(target)?;
                if target.is_null() {
                    return Ok(Value::Null);
                }
                let text = self.text(&target)?.ok_or_else(|| type_error(format!("matches() does not take {}", target.kind())))?;
                self.charge(text.len() / 16)?;
                Value::Bool(regex.is_match(&text))
            }
            Op::Macro(kind, parts) => return self.comprehension(*kind, parts),
        })
    }

    fn path(&mut self, base: &'a Node, steps: &'a [Step]) -> Result<Value<'a>> {
        let mut value = match &base.op {
            Op::Root(root) => self.scope.root(*root),
            Op::Field(root, name) => self.scope.field(*root, name),
            _ => self.eval(base)?,
        };
        for step in steps {
            let members = value.len().unwrap_or(0);
            value = match step {
                Step::Key(key) => {
                    self.charge(members / 8)?;
                    value.get(key)
                }
                Step::Item(number) => {
                    self.charge((*number).min(members) / 8)?;
                    value.item(*number)
                }
            };
        }
        Ok(value)
    }

    fn index(&mut self, base: &'a Node, index: &'a Node) -> Result<Value<'a>> {
        if let Op::Root(root) = base.op
            && !matches!(root, Root::Body | Root::ResponseBody | Root::Task(_) | Root::Item)
        {
            let index = self.eval(index)?;
            return Ok(match index.as_str() {
                Some(name) if matches!(root, Root::Headers | Root::ResponseHeaders | Root::TaskHeaders(_)) => {
                    self.scope.field(root, &name.to_ascii_lowercase())
                }
                Some(name) => self.scope.field(root, &name),
                None => Value::Null,
            });
        }
        let base = self.eval(base)?;
        let index = self.eval(index)?;
        self.lookup(&base, &index)
    }

    /// A member by key or an item by number; null where there is none.
    fn lookup(&mut self, base: &Value<'a>, index: &Value<'_>) -> Result<Value<'a>> {
        if base.is_null() || index.is_null() {
            return Ok(Value::Null);
        }
        self.charge(base.len().unwrap_or(0) / 8)?;
        if base.is_list() {
            let number = index.as_number().and_then(Number::as_u64).and_then(|number| usize::try_from(number).ok());
            return Ok(number.map_or(Value::Null, |number| base.item(number)));
        }
        if let Some(key) = self.text(index)? {
            return Ok(base.get(&key));
        }
        let Value::Map(entries) = base else { return Ok(Value::Null) };
        for (key, value) in entries.iter() {
            if self.equal(key, index)? {
                return Ok(value.clone());
            }
        }
        Ok(Value::Null)
    }

    /// Whether a condition holds: null counts as false.
    fn truth(&mut self, node: &'a Node) -> Result<bool> {
        match self.eval(node)? {
            Value::Bool(value) => Ok(value),
            Value::Null => Ok(false),
            other => Err(EvalError {
                offset: node.start,
                len: node.end - node.start,
                ..type_error(format!("expected true or false, found {}", other.kind()))
            }),
        }
    }

    /// `||` with `decisive` true, `&&` with false. As in CEL, an operand that decides makes the errors of others not matter.
    fn all(&mut self, operands: &'a [Node], decisive: bool) -> Result<Value<'a>> {
        let mut failed = None;
        for operand in operands {
            match self.truth(operand) {
                Ok(value) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(_) => {}
                Err(error) if error.kind == EvalErrorKind::Budget => return Err(error),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn negate(&mut self, operand: &'a Node) -> Result<Value<'a>> {
        let value = self.eval(operand)?;
        if value.is_null() {
            return Ok(Value::Null);
        }
        match self.number(&value)? {
            Some(Number::Int(number)) => number.checked_neg().map(Value::Int).ok_or_else(|| error(EvalErrorKind::Overflow)),
            Some(Number::UInt(number)) => 0i64.checked_sub_unsigned(number).map(Value::Int).ok_or_else(|| error(EvalErrorKind::Overflow)),
            Some(number) => Ok(Value::Float(-number.as_f64())),
            None => Err(type_error(format!("'-' does not take {}", value.kind()))),
        }
    }

    fn binary(&mut self, operator: Operator, left: &'a Node, right: &'a Node) -> Result<Value<'a>> {
        if operator == Operator::In {
            return self.contained(left, right);
        }
        let left = self.eval(left)?;
        let right = self.eval(right)?;
        match operator {
            Operator::Equal => return Ok(Value::Bool(self.equal(&left, &right)?)),
            Operator::NotEqual => return Ok(Value::Bool(!self.equal(&left, &right)?)),
            _ if left.is_null() || right.is_null() => return Ok(Value::Null),
            Operator::Less | Operator::LessEqual | Operator::Greater | Operator::GreaterEqual => {
                // NaN is neither less nor greater.
                let order = self.order(&left, &right, operator.symbol())?;
                return Ok(Value::Bool(order.is_some_and(|order| match operator {
                    Operator::Less => order.is_lt(),
                    Operator::LessEqual => order.is_le(),
                    Operator::Greater => order.is_gt(),
                    _ => order.is_ge(),
                })));
            }
            _ => {}
        }
        if let (Some(left), Some(right)) = (self.number(&left)?, self.number(&right)?) {
            return arithmetic(operator, left, right);
        }
        if operator == Operator::Add
            && let Some(sum) = self.concatenate(&left, &right)?
        {
            return Ok(sum);
        }
        Err(type_error(format!("'{}' does not take {} and {}", operator.symbol(), left.kind(), right.kind())))
    }

    fn contained(&mut self, left: &'a Node, right: &'a Node) -> Result<Value<'a>> {
        let needle = self.eval(left)?;
        if let Op::Root(root) = right.op
            && !matches!(root, Root::Body | Root::ResponseBody | Root::Task(_) | Root::Item)
        {
            let Some(name) = needle.as_str() else { return Ok(Value::Bool(false)) };
            let name = if matches!(root, Root::Headers | Root::ResponseHeaders | Root::TaskHeaders(_)) {
                Cow::Owned(name.to_ascii_lowercase())
            } else {
                name
            };
            return Ok(Value::Bool(!self.scope.field(root, &name).is_null()));
        }
        if let Op::Constant(Value::List(items)) = &right.op {
            for item in items.iter() {
                self.charge(1)?;
                if self.equal(&needle, item)? {
                    return Ok(Value::Bool(true));
                }
            }
            return Ok(Value::Bool(false));
        }
        let container = self.eval(right)?;
        if container.is_null() {
            return Ok(Value::Bool(false));
        }
        if let (false, Some(key)) = (container.is_list(), needle.as_str()) {
            self.charge(container.len().unwrap_or(0) / 8)?;
            if container.len().is_some() {
                return Ok(Value::Bool(container.has(&key)));
            }
        }
        let each =
            Each::of(&container).ok_or_else(|| type_error(format!("'in' looks into lists and maps, not into {}", container.kind())))?;
        for item in each {
            self.charge(1)?;
            if self.equal(&needle, &item)? {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    }

    fn concatenate(&mut self, left: &Value<'a>, right: &Value<'a>) -> Result<Option<Value<'a>>> {
        if let (Some(first), Some(second)) = (self.text(left)?, self.text(right)?) {
            self.made(first.len() + second.len())?;
            let mut sum = String::with_capacity(first.len() + second.len());
            sum.push_str(&first);
            sum.push_str(&second);
            return Ok(Some(sum.into()));
        }
        if let (Value::Bytes(first), Value::Bytes(second)) = (left, right) {
            self.made(first.len() + second.len())?;
            return Ok(Some(Value::Bytes([first.as_ref(), second.as_ref()].concat().into())));
        }
        if !left.is_list() || !right.is_list() {
            return Ok(None);
        }
        self.weigh(left)?;
        self.weigh(right)?;
        let items = Each::of(left).into_iter().flatten().chain(Each::of(right).into_iter().flatten());
        Ok(Some(Value::list(items.collect())))
    }

    fn map(&mut self, entries: &'a [(Node, Node)]) -> Result<Value<'a>> {
        self.charge(MAKING)?;
        let mut made: Vec<(Value<'a>, Value<'a>)> = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let key_value = self.eval(key)?;
            let valid = key_value.as_str().is_some()
                || matches!(key_value, Value::Bool(_))
                || key_value.as_number().is_some_and(|number| !matches!(number, Number::Float(_)));
            if !valid {
                return Err(type_error(format!("a map's key cannot be {}", key_value.kind())));
            }
            for (earlier, _) in &made {
                if self.equal(earlier, &key_value)? {
                    return Err(error(EvalErrorKind::RepeatedKey));
                }
            }
            // A document's text becomes plain text, so that members are found by comparing text.
            let key_value = match key_value {
                Value::Json(Json::Ref(json)) => json.as_str().map_or(Value::Json(Json::Ref(json)), Value::Str),
                other => other,
            };
            let value = self.eval(value)?;
            self.weigh(&value)?;
            made.push((key_value, value));
        }
        Ok(Value::Map(Arc::new(made)))
    }

    fn comprehension(&mut self, kind: Macro, parts: &'a MacroParts) -> Result<Value<'a>> {
        let range = self.eval(&parts.range)?;
        if range.is_null() {
            return Ok(Value::Null);
        }
        let each = Each::of(&range).ok_or_else(|| type_error(format!("expected a list or map, found {}", range.kind())))?;
        if let Each::Owned(items) = &each {
            self.charge(items.len() / 8)?;
        }
        let slot = self.locals.len();
        let outcome = self.each(kind, parts, each, slot);
        self.locals.truncate(slot);
        outcome
    }

    fn each(&mut self, kind: Macro, parts: &'a MacroParts, each: Each<'a>, slot: usize) -> Result<Value<'a>> {
        let (mut failed, mut passed, mut made) = (None, 0usize, Vec::new());
        for item in each {
            self.charge(1)?;
            self.locals.truncate(slot);
            self.locals.push(item);
            let holds = match parts.test.as_ref().map(|test| self.truth(test)) {
                None => true,
                Some(Ok(holds)) => holds,
                // As in CEL, an item that decides makes the errors of others not matter.
                Some(Err(error)) if matches!(kind, Macro::All | Macro::Exists) && error.kind != EvalErrorKind::Budget => {
                    failed = failed.or(Some(error));
                    continue;
                }
                Some(Err(error)) => return Err(error),
            };
            match kind {
                Macro::All if !holds => return Ok(Value::Bool(false)),
                Macro::Exists if holds => return Ok(Value::Bool(true)),
                Macro::Map | Macro::Filter if holds => {
                    let value = match &parts.result {
                        Some(result) => self.eval(result)?,
                        None => self.locals.get(slot).cloned().unwrap_or_default(),
                    };
                    self.weigh(&value)?;
                    made.push(value);
                }
                _ => passed += holds as usize,
            }
        }
        match (kind, failed) {
            (_, Some(error)) => Err(error),
            (Macro::All, None) => Ok(Value::Bool(true)),
            (Macro::Exists, None) => Ok(Value::Bool(false)),
            (Macro::ExistsOne, None) => Ok(Value::Bool(passed == 1)),
            (Macro::Map | Macro::Filter, None) => Ok(Value::list(made)),
        }
    }

    /// The text of a text, its length charged.
    fn text<'v>(&mut self, value: &'v Value<'_>) -> Result<Option<Cow<'v, str>>> {
        let length = match value {
            Value::Str(text) => text.len(),
            Value::Json(json) => json.as_ref().raw().len(),
            _ => return Ok(None),
        };
        self.charge(length / 64)?;
        Ok(value.as_str())
    }

    fn number<'v>(&mut self, value: &'v Value<'_>) -> Result<Option<Number<'v>>> {
        if let Value::Json(json) = value {
            self.charge(json.as_ref().raw().len() / 64)?;
        }
        Ok(value.as_number())
    }

    /// A text of this length is about to be made.
    fn made(&mut self, length: usize) -> Result<()> {
        if length > MAX_TEXT {
            return Err(error(EvalErrorKind::TooLong));
        }
        self.charge(MAKING + length / 64)
    }

    /// Charges what a value would be worth when written out, before it becomes a part of another: doubling must not come for free.
    fn weigh(&mut self, value: &Value<'_>) -> Result<()> {
        match value {
            Value::Str(text) | Value::Spelt(text) => self.charge(text.len() / 64),
            Value::Bytes(bytes) => self.charge(bytes.len() / 64),
            Value::Json(json) => self.charge(json.as_ref().raw().len() / 64),
            Value::List(items) => {
                self.charge(1)?;
                items.iter().try_for_each(|item| self.charge(1).and_then(|()| self.weigh(item)))
            }
            Value::Map(entries) => {
                self.charge(1)?;
                entries.iter().try_for_each(|(key, value)| self.charge(1).and_then(|()| self.weigh(key)).and_then(|()| self.weigh(value)))
            }
            _ => Ok(()),
        }
    }
}

/// `+ - * / %` of numbers. Integers stay integers and may not leave their 64 bits; with a double, or a number beyond 64 bits, doubles.
fn arithmetic<'a>(operator: Operator, left: Number<'_>, right: Number<'_>) -> Result<Value<'a>> {
    match (left, right) {
        (Number::Int(left), Number::Int(right)) => integers(operator, left as i128, right as i128, false),
        (Number::UInt(left), Number::UInt(right)) => integers(operator, left as i128, right as i128, true),
        (Number::Int(left), Number::UInt(right)) => integers(operator, left as i128, right as i128, false),
        (Number::UInt(left), Number::Int(right)) => integers(operator, left as i128, right as i128, false),
        (left, right) => {
            let (left, right) = (left.as_f64(), right.as_f64());
            Ok(Value::Float(match operator {
                Operator::Add => left + right,
                Operator::Subtract => left - right,
                Operator::Multiply => left * right,
                Operator::Divide => left / right,
                _ => return Err(type_error("'%' takes integers only".to_owned())),
            }))
        }
    }
}

/// Both are within 64 bits, so that only a product could leave 128; it is checked.
fn integers<'a>(operator: Operator, left: i128, right: i128, unsigned: bool) -> Result<Value<'a>> {
    let outcome = match operator {
        Operator::Add => left.checked_add(right),
        Operator::Subtract => left.checked_sub(right),
        Operator::Multiply => left.checked_mul(right),
        _ if right == 0 => return Err(error(EvalErrorKind::DivisionByZero)),
        Operator::Divide => left.checked_div(right),
        _ => left.checked_rem(right),
    };
    let fits = outcome.and_then(|number| match unsigned {
        true => u64::try_from(number).ok().map(Value::UInt),
        false => i64::try_from(number).ok().map(Value::Int),
    });
    fits.ok_or_else(|| error(EvalErrorKind::Overflow))
}
