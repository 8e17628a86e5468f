//! A compiled expression: names resolved, constants folded, patterns built.

use regex::Regex;

use super::{Root, Value, functions::Function, syntax::Operator};

#[derive(Debug)]
pub(super) struct Node {
    pub(super) op: Op,
    pub(super) start: u32,
    pub(super) end: u32,
}

#[derive(Debug)]
pub(super) enum Op {
    Constant(Value<'static>),
    Root(Root),
    /// A field of a root, asked for by name.
    Field(Root, Box<str>),
    /// Steps into what the node gives.
    Path(Box<Node>, Box<[Step]>),
    /// A key or number that is computed.
    Index(Box<[Node; 2]>),
    /// `has(a.b)`: the member is there, whatever its value.
    Has(Box<Node>, Box<str>),
    /// `has` of what cannot tell absent from null.
    Present(Box<Node>),
    /// A comprehension's variable, by its place on the stack.
    Local(usize),
    Secret(Box<str>),
    Not(Box<Node>),
    Negate(Box<Node>),
    And(Box<[Node]>),
    Or(Box<[Node]>),
    Conditional(Box<[Node; 3]>),
    Binary(Operator, Box<[Node; 2]>),
    List(Box<[Node]>),
    Map(Box<[(Node, Node)]>),
    Call(Function, Box<[Node]>),
    Matches(Box<Node>, Box<Regex>),
    Macro(Macro, Box<MacroParts>),
}

#[derive(Debug)]
pub(super) enum Step {
    Key(Box<str>),
    Item(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Macro {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
}

#[derive(Debug)]
pub(super) struct MacroParts {
    pub(super) range: Node,
    /// The condition; of `map`, the one of its three-argument form.
    pub(super) test: Option<Node>,
    /// What `map` makes of each item.
    pub(super) result: Option<Node>,
}
