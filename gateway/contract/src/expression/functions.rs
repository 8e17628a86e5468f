//! The functions that expressions know: their names, forms and kinds. What they do is in `evaluate/call`.

use super::{CompileError, closest, resolve::Shape};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Size,
    Contains,
    StartsWith,
    EndsWith,
    Matches,
    Text,
    Int,
    UInt,
    Double,
    Bool,
    Bytes,
    TypeOf,
    Same,
    LowerAscii,
    UpperAscii,
    Trim,
    Split,
    Join,
    Replace,
    Substring,
    CharAt,
    IndexOf,
    LastIndexOf,
    Min,
    Max,
    Keys,
}

use Function as F;

/// Name, function, `x.f()` allowed, `f(x)` allowed, fewest and most values, that before the dot counted.
const FUNCTIONS: [(&str, Function, bool, bool, usize, usize); 26] = [
    ("size", F::Size, true, true, 1, 1),
    ("contains", F::Contains, true, false, 2, 2),
    ("startsWith", F::StartsWith, true, false, 2, 2),
    ("endsWith", F::EndsWith, true, false, 2, 2),
    ("matches", F::Matches, true, true, 2, 2),
    ("string", F::Text, false, true, 1, 1),
    ("int", F::Int, false, true, 1, 1),
    ("uint", F::UInt, false, true, 1, 1),
    ("double", F::Double, false, true, 1, 1),
    ("bool", F::Bool, false, true, 1, 1),
    ("bytes", F::Bytes, false, true, 1, 1),
    ("type", F::TypeOf, false, true, 1, 1),
    ("dyn", F::Same, false, true, 1, 1),
    ("lowerAscii", F::LowerAscii, true, false, 1, 1),
    ("upperAscii", F::UpperAscii, true, false, 1, 1),
    ("trim", F::Trim, true, false, 1, 1),
    ("split", F::Split, true, false, 2, 3),
    ("join", F::Join, true, false, 1, 2),
    ("replace", F::Replace, true, false, 3, 4),
    ("substring", F::Substring, true, false, 2, 3),
    ("charAt", F::CharAt, true, false, 2, 2),
    ("indexOf", F::IndexOf, true, false, 2, 3),
    ("lastIndexOf", F::LastIndexOf, true, false, 2, 2),
    ("min", F::Min, false, true, 1, usize::MAX),
    ("max", F::Max, false, true, 1, usize::MAX),
    ("keys", F::Keys, true, true, 1, 1),
];

const MACROS: [&str; 8] = ["has", "all", "exists", "exists_one", "map", "filter", "secret", "existsOne"];

/// What people write who come from elsewhere.
const ALIASES: [(&str, &str); 12] = [
    ("length", "size"),
    ("len", "size"),
    ("count", "size"),
    ("lower", "lowerAscii"),
    ("toLowerCase", "lowerAscii"),
    ("upper", "upperAscii"),
    ("toUpperCase", "upperAscii"),
    ("strip", "trim"),
    ("includes", "contains"),
    ("any", "exists"),
    ("str", "string"),
    ("float", "double"),
];

/// True for what opens a scope of its own, and so cannot be looked into when it is called wrongly.
pub(super) fn is_macro(name: &str) -> bool {
    MACROS.contains(&name)
}

pub(super) fn exists(name: &str) -> bool {
    FUNCTIONS.iter().any(|function| function.0 == name)
}

/// The function of this name, if it may be called so; the error's place is the caller's to set.
pub(super) fn find(name: &str, method: bool, values: usize) -> Result<Function, CompileError> {
    let fault = |message: String| CompileError::new(0, 0, message);
    let Some((_, function, as_method, as_global, fewest, most)) = FUNCTIONS.iter().find(|known| known.0 == name) else {
        let known = FUNCTIONS.iter().map(|function| function.0).chain(MACROS).chain(ALIASES.map(|(alias, _)| alias));
        let near = closest(name, known).map(|near| ALIASES.iter().find(|(alias, _)| *alias == near).map_or(near, |(_, meant)| meant));
        let error = fault(if MACROS.contains(&name) {
            format!("{name}() is called on a list or map, as in list.{name}(x, …)")
        } else {
            format!("there is no function '{name}'")
        });
        return Err(match near {
            Some(near) if near != name => error.help(format!("did you mean '{near}'?")),
            _ => error,
        });
    };
    match method {
        true if !as_method => return Err(fault(format!("{name}() takes its value in brackets, as in {name}(x)"))),
        false if !as_global => return Err(fault(format!("{name}() is called on its value, as in x.{name}(…)"))),
        _ => {}
    }
    if !(*fewest..=*most).contains(&values) {
        let own = method as usize;
        let wanted = match (fewest - own, most.saturating_sub(own)) {
            (few, many) if few == many => few.to_string(),
            (few, many) if *most < usize::MAX => format!("{few} or {many}"),
            (few, _) => format!("{few} or more"),
        };
        let plural = if wanted == "1" { "" } else { "s" };
        let given: Vec<&str> = ["x", "y", "z"].into_iter().take(fewest - own).collect();
        let sample = if method { format!("value.{name}({})", given.join(", ")) } else { format!("{name}({})", given.join(", ")) };
        return Err(
            fault(format!("{name}() takes {wanted} argument{plural}, found {}", values - own)).help(format!("write it like {sample}"))
        );
    }
    Ok(*function)
}

/// True for the names of types, as `type(x) == int` compares them.
pub(super) fn is_type(name: &str) -> bool {
    matches!(name, "bool" | "int" | "uint" | "double" | "string" | "bytes" | "list" | "map" | "type" | "null_type")
}

pub(super) fn type_name(name: &str) -> &'static str {
    match name {
        "bool" => "bool",
        "int" => "int",
        "uint" => "uint",
        "double" => "double",
        "string" => "string",
        "bytes" => "bytes",
        "list" => "list",
        "map" => "map",
        "type" => "type",
        _ => "null_type",
    }
}

impl Function {
    /// The kinds that the value of this number may have; empty for any.
    pub(super) fn takes(self, number: usize) -> &'static [Shape] {
        use Shape::{Bool, Bytes, List, Map, Number, Text};
        match (self, number) {
            (F::Size, _) => &[Text, Bytes, List, Map],
            (F::Contains | F::StartsWith | F::EndsWith | F::Matches | F::LowerAscii | F::UpperAscii | F::Trim, _) => &[Text],
            (F::Text, _) => &[Text, Number, Bool, Bytes],
            (F::Int | F::UInt | F::Double, _) => &[Text, Number],
            (F::Bool, _) => &[Bool, Text],
            (F::Bytes, _) => &[Text, Bytes],
            (F::Split, 2) | (F::Replace, 3) | (F::Substring, 1 | 2) | (F::CharAt, 1) | (F::IndexOf, 2) => &[Number],
            (F::Join, 0) => &[List],
            (F::Split | F::Replace | F::Substring | F::CharAt | F::IndexOf | F::LastIndexOf | F::Join, _) => &[Text],
            (F::Keys, _) => &[Map],
            (F::TypeOf | F::Same | F::Min | F::Max, _) => &[],
        }
    }

    /// The kind of what it gives.
    pub(super) fn gives(self) -> Shape {
        match self {
            F::Size | F::Int | F::UInt | F::Double | F::IndexOf | F::LastIndexOf => Shape::Number,
            F::Contains | F::StartsWith | F::EndsWith | F::Matches | F::Bool => Shape::Bool,
            F::Text | F::LowerAscii | F::UpperAscii | F::Trim | F::Join | F::Replace | F::Substring | F::CharAt => Shape::Text,
            F::Bytes => Shape::Bytes,
            F::Split | F::Keys => Shape::List,
            F::TypeOf | F::Same | F::Min | F::Max => Shape::Any,
        }
    }
}
