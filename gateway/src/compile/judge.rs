//! What is said of expressions while a document is still being read, so that one fault does not hide another.
use contract::expression::{Context, Expression, Names, Place, Template};
use schemas::{Form, TextAt, TextFault};

use super::told::text_fault;
use crate::route::pattern::Pattern;

/// Judges a text by what its place sees; what only the whole document knows, such as its parameters, is judged when it is compiled.
pub fn judge(at: TextAt<'_>, text: &str) -> Result<(), TextFault> {
    let errors = match at.form {
        Form::Pattern => {
            return Pattern::parse(text).map(drop).map_err(|it| TextFault {
                offset: it.offset,
                len: it.len,
                code: "bad-pattern",
                message: it.message,
                help: it.help,
            });
        }
        Form::Expression => place(at).map(|it| Expression::compile(text, &it).map(drop)),
        Form::Condition => place(at).map(|it| Expression::condition(text, &it).map(drop)),
        Form::Template => place(at).map(|it| Template::compile(text, &it, Context::Plain).map(drop)),
        _ => None,
    };
    match errors {
        Some(Err(mut all)) if !all.is_empty() => Err(text_fault(all.swap_remove(0))),
        _ => Ok(()),
    }
}

/// What is certain of a place by its pointer alone. Inside a pipeline, names of tasks are not.
fn place(at: TextAt<'_>) -> Option<Names<'static>> {
    let pointer = at.path.to_string();
    let under = |it: &str| pointer.starts_with(it);
    let place = match () {
        () if under("/inbound/when") => Place::InboundWhen,
        () if under("/plugins") => Place::Plugin,
        () if under("/balance") => Place::Balance,
        () if under("/proxy/pipeline") || under("/outbound") || under("/proxy/push") => return None,
        () if under("/proxy/outcomes") => Place::Outcomes,
        () if under("/proxy") => Place::Proxy,
        () => return None,
    };
    Some(Names::new(place).secrets(place == Place::Proxy || place == Place::Plugin))
}
