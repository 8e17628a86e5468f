//! Declared parameters: found in a request, turned into what their types say, held to their schemas.
use std::borrow::Cow;

use contract::{Value, catalog::Fault, exchange::Captures, problem::Detail};
use http::request;
use serde_json::{Map, Value as Json};

pub mod body;
mod endless;
pub mod media;
mod param;
pub mod schema;
mod text;
pub mod wording;

use self::{
    param::{Param, Place, Shape},
    schema::escaped,
    text::{Encoding, Kinds},
    wording::MOST_FAULTS,
};

/// All parameters of one Api.
#[derive(Debug, Default)]
pub struct Params {
    /// In the order of the definition.
    all: Box<[Param]>,
}

/// What a request brings.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    pub head: &'a request::Parts,
    /// The names of the matched pattern's captures, and where they lie in the path.
    pub names: &'a [Box<str>],
    pub captures: &'a Captures,
    pub form: Form<'a>,
}

/// The fields of a form, where the body is one.
#[derive(Clone, Copy, Debug, Default)]
pub enum Form<'a> {
    #[default]
    Absent,
    /// As received, `application/x-www-form-urlencoded`.
    Urlencoded(&'a [u8]),
    /// Taken apart and decoded already.
    Fields(&'a [(String, String)]),
}

/// What was found under one name, undecoded.
#[derive(Default)]
struct Texts<'a> {
    first: Option<&'a [u8]>,
    more: Vec<&'a [u8]>,
}

impl<'a> Texts<'a> {
    fn push(&mut self, text: &'a [u8]) {
        match self.first {
            None => self.first = Some(text),
            Some(_) => self.more.push(text),
        }
    }

    fn count(&self) -> usize {
        usize::from(self.first.is_some()) + self.more.len()
    }
}

impl Params {
    /// Reads `params` as written; lists every fault, with pointers into it.
    ///
    /// `captures` are the names that each pattern of the Api captures: a path parameter must be in all of them.
    pub fn compile(written: &Map<String, Json>, captures: &[&[Box<str>]]) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut all: Vec<Param> = Vec::with_capacity(written.len());
        for (name, it) in written {
            let Some(param) = Param::compile(name, it, captures, &mut faults) else { continue };
            if let Some(other) = all.iter().find(|it| it.header.is_some() && it.header == param.header) {
                let message = format!("'{name}' and '{}' are the same header", other.name);
                faults.push(Fault::new(format!("/{}", escaped(name)), message));
            }
            all.push(param);
        }
        if faults.is_empty() { Ok(Self { all: all.into() }) } else { Err(faults) }
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// In the order of the definition, which is that of the values.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|it| &*it.name)
    }

    /// Whether the body must be read before the parameters.
    pub fn need_form(&self) -> bool {
        self.all.iter().any(|it| it.place == Place::Form)
    }

    /// The values, one for each parameter, and every fault; at most [`MOST_FAULTS`].
    ///
    /// A parameter that is absent, or that is not of its type, is null; one that breaks another rule keeps its value.
    pub fn coerce(&self, given: &Given<'_>) -> (Vec<Value>, Vec<Detail>) {
        let mut values = Vec::with_capacity(self.all.len());
        let mut details = Vec::new();
        if self.all.is_empty() {
            return (values, details);
        }
        for (param, texts) in self.all.iter().zip(self.gather(given)) {
            let encoding = match (param.place, given.form) {
                (Place::Path, _) => Encoding::Percent,
                (Place::Query, _) | (Place::Form, Form::Urlencoded(_)) => Encoding::Form,
                _ => Encoding::Plain,
            };
            values.push(Reading { param, encoding, details: &mut details }.value(&texts));
        }
        details.truncate(MOST_FAULTS);
        (values, details)
    }

    /// The texts of each parameter, each part of the request read once.
    fn gather<'a>(&self, given: &Given<'a>) -> Vec<Texts<'a>> {
        let mut found: Vec<Texts<'a>> = self.all.iter().map(|_| Texts::default()).collect();
        let path = given.head.uri.path();
        let (mut query, mut cookie, mut form) = (false, false, false);
        for (param, texts) in self.all.iter().zip(&mut found) {
            match param.place {
                Place::Path => {
                    let at = given.names.iter().position(|it| *it == param.name);
                    let span = at.and_then(|at| given.captures.get(at));
                    texts.first = span.and_then(|(from, to)| path.as_bytes().get(*from as usize..*to as usize));
                }
                Place::Header => {
                    let lines = param.header.as_ref().into_iter().flat_map(|it| given.head.headers.get_all(it));
                    lines.for_each(|it| texts.push(it.as_bytes().trim_ascii()));
                }
                Place::Query => query = true,
                Place::Cookie => cookie = true,
                Place::Form => form = true,
            }
        }
        if query {
            pairs(given.head.uri.query().unwrap_or("").as_bytes(), |name, text| self.put(Place::Query, &name, text, &mut found));
        }
        if cookie {
            for line in given.head.headers.get_all(http::header::COOKIE) {
                for it in line.as_bytes().split(|it| *it == b';') {
                    let Some(at) = memchr::memchr(b'=', it) else { continue };
                    let text = it[at + 1..].trim_ascii();
                    let text = text.strip_prefix(b"\"").and_then(|it| it.strip_suffix(b"\"")).unwrap_or(text);
                    self.put(Place::Cookie, it[..at].trim_ascii(), text, &mut found);
                }
            }
        }
        match given.form {
            Form::Urlencoded(body) if form => pairs(body, |name, text| self.put(Place::Form, &name, text, &mut found)),
            Form::Fields(fields) if form => {
                fields.iter().for_each(|(name, text)| self.put(Place::Form, name.as_bytes(), text.as_bytes(), &mut found));
            }
            _ => {}
        }
        found
    }

    fn put<'a>(&self, place: Place, name: &[u8], text: &'a [u8], found: &mut [Texts<'a>]) {
        let at = self.all.iter().position(|it| it.place == place && it.name.as_bytes() == name);
        if let Some(at) = at {
            found[at].push(text);
        }
    }
}

/// Names, decoded, and texts, as they stand. A name that cannot be decoded is nobody's.
fn pairs<'a>(text: &'a [u8], mut put: impl FnMut(Cow<'a, [u8]>, &'a [u8])) {
    for it in text.split(|it| *it == b'&').filter(|it| !it.is_empty()) {
        let (name, text) = match memchr::memchr(b'=', it) {
            Some(at) => (&it[..at], &it[at + 1..]),
            None => (it, &b""[..]),
        };
        match text::decode(name, Encoding::Form) {
            Ok(Cow::Borrowed(it)) => put(Cow::Borrowed(it.as_bytes()), text),
            Ok(Cow::Owned(it)) => put(Cow::Owned(it.into_bytes()), text),
            Err(_) => {}
        }
    }
}

/// One parameter of one request.
struct Reading<'p, 'd> {
    param: &'p Param,
    encoding: Encoding,
    details: &'d mut Vec<Detail>,
}

impl Reading<'_, '_> {
    fn value(mut self, texts: &Texts<'_>) -> Value {
        let Some(first) = texts.first else {
            if self.param.required {
                self.fault("/required", "", format!("missing parameter: {}", wording::quoted(&self.param.name)));
                return Value::Null;
            }
            return self.param.default.clone();
        };
        match &self.param.shape {
            Shape::One(kinds) => {
                if !texts.more.is_empty() {
                    let found = format!("must be given once but found {} times", texts.count());
                    self.fault("/type", "", found);
                    return Value::Null;
                }
                match self.scalar(*kinds, first, Spot::Root) {
                    Some(value) => {
                        self.check(&value, &[]);
                        value
                    }
                    None => Value::Null,
                }
            }
            Shape::List { first: prefix, items, explode } => {
                let all = std::iter::once(first).chain(texts.more.iter().copied());
                let pieces: Vec<&[u8]> = match explode {
                    true => all.collect(),
                    // An encoded comma is part of an item; an empty text is an empty list.
                    false => all.filter(|it| !it.is_empty()).flat_map(|it| it.split(|it| *it == b',')).map(<[u8]>::trim_ascii).collect(),
                };
                self.list(prefix, *items, &pieces)
            }
        }
    }

    fn list(&mut self, prefix: &[Kinds], items: Kinds, pieces: &[&[u8]]) -> Value {
        let mut list = Vec::with_capacity(pieces.len());
        let mut failed = Vec::new();
        for (at, piece) in pieces.iter().enumerate() {
            let value = match prefix.get(at) {
                Some(kinds) => self.scalar(*kinds, piece, Spot::First(at)),
                None => self.scalar(items, piece, Spot::Item(at)),
            };
            if value.is_none() {
                failed.push(Spot::Item(at).pointer());
            }
            list.push(value.unwrap_or_default());
        }
        let list = Value::List(list);
        self.check(&list, &failed);
        if failed.is_empty() { list } else { Value::Null }
    }

    /// One text of a single value; its fault is told where it has one.
    fn scalar(&mut self, kinds: Kinds, raw: &[u8], spot: Spot) -> Option<Value> {
        let text = match text::decode(raw, self.encoding) {
            Ok(it) => it,
            Err(why) => {
                self.fault(&spot.schema("/type"), &spot.pointer(), why.message().to_owned());
                return None;
            }
        };
        let value = kinds.read(&text);
        match &value {
            None => {
                let message = wording::must_be(&kinds.names(), &wording::quoted(&text));
                self.fault(&spot.schema("/type"), &spot.pointer(), message);
            }
            Some(Value::Number(number)) if !kinds.holds(number) => {
                let message = format!("must be a valid int{} but found {}", kinds.bits.unwrap_or_default(), wording::cut(number));
                self.fault(&spot.schema("/format"), &spot.pointer(), message);
            }
            Some(_) => {}
        }
        value
    }

    /// Holds the value to its schema; items that already `failed` are not told twice.
    fn check(&mut self, value: &Value, failed: &[String]) {
        let Some(check) = &self.param.check else { return };
        let json = value.to_json();
        if check.is_valid(&json) {
            return;
        }
        let below = |pointer: &str, it: &String| pointer.strip_prefix(it.as_str()).is_some_and(|it| it.is_empty() || it.starts_with('/'));
        let mut told = wording::tell(check.iter_errors(&json), MOST_FAULTS);
        told.retain(|told| !failed.iter().any(|it| below(&told.pointer, it)));
        for it in told {
            self.fault(&it.schema, &it.pointer, it.message);
        }
    }

    fn fault(&mut self, schema: &str, pointer: &str, message: String) {
        // The root is told by the name alone, what lies below it by a pointer that begins with the name.
        let pointer = match pointer {
            "" => self.param.name.to_string(),
            it => format!("/{}{it}", escaped(&self.param.name)),
        };
        if self.details.len() < MOST_FAULTS {
            let schema = format!("{}{schema}", self.param.key);
            self.details.push(Detail { place: self.param.place.word(), schema, pointer, message });
        }
    }
}

/// Which of a parameter's texts; its places are written out only for a fault.
#[derive(Clone, Copy)]
enum Spot {
    Root,
    Item(usize),
    /// One of the first items, which have a schema each.
    First(usize),
}

impl Spot {
    fn schema(self, keyword: &str) -> String {
        match self {
            Self::Root => keyword.to_owned(),
            Self::Item(_) => format!("/items{keyword}"),
            Self::First(at) => format!("/prefixItems/{at}{keyword}"),
        }
    }

    fn pointer(self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Item(at) | Self::First(at) => format!("/{at}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn params(written: Json) -> Params {
        compile(written).unwrap_or_else(|it| panic!("{it:?}"))
    }

    fn compile(written: Json) -> Result<Params, Vec<Fault>> {
        let Json::Object(map) = written else { panic!("params is a map") };
        Params::compile(&map, &[&["id".into(), "rest".into()]])
    }

    /// What a request with this path (one capture: all of it), query, headers and form gives.
    struct Ask {
        target: &'static str,
        headers: Vec<(&'static str, &'static str)>,
        form: &'static str,
    }

    impl Ask {
        fn of(target: &'static str) -> Self {
            Self { target, headers: Vec::new(), form: "" }
        }

        fn run(&self, params: &Params) -> (Vec<Json>, Vec<(String, String, String)>) {
            let mut request = http::Request::builder().uri(self.target);
            for (name, value) in &self.headers {
                request = request.header(*name, *value);
            }
            let (head, ()) = request.body(()).unwrap().into_parts();
            let captures = vec![(1, head.uri.path().len() as u32)];
            let names: [Box<str>; 1] = ["id".into()];
            let given = Given { head: &head, names: &names, captures: &captures, form: Form::Urlencoded(self.form.as_bytes()) };
            let (values, details) = params.coerce(&given);
            assert_eq!(values.len(), params.names().count());
            let details = details.into_iter().map(|it| (it.schema, format!("{} {}", it.place, it.pointer), it.message));
            (values.iter().map(Value::to_json).collect(), details.collect())
        }
    }

    #[test]
    fn a_text_becomes_what_its_type_says() {
        for (schema, query, expected) in [
            (json!({"type": "integer"}), "x=7", json!(7)),
            (json!({"type": "integer"}), "x=-0", json!(-0.0)),
            (json!({"type": "number"}), "x=1.5e3", json!(1500.0)),
            (json!({"type": "boolean"}), "x=true", json!(true)),
            (json!({"type": "string"}), "x=7", json!("7")),
            (json!({}), "x=true", json!("true")),
            (json!({}), "x=", json!("")),
            (json!({}), "x", json!("")),
            (json!({}), "x=a+b%2Bc%20d=e", json!("a b+c d=e")),
            (json!({}), "%78=encoded%20name", json!("encoded name")),
            (json!({"type": ["integer", "null"]}), "x=", json!(null)),
            (json!({"type": ["integer", "null"]}), "x=5", json!(5)),
            (json!({"type": ["string", "null"]}), "x=", json!("")),
            (json!({"type": ["string", "integer"]}), "x=5", json!(5)),
            (json!({"type": ["string", "integer"]}), "x=05", json!("05")),
            (json!({}), "y=1", json!(null)),
            (json!({"default": "d"}), "y=1", json!("d")),
            (json!({"type": "array", "items": {"type": "integer"}}), "x=1&y=0&x=2", json!([1, 2])),
            (json!({"type": "array"}), "x=1,2", json!(["1,2"])),
            (json!({"type": "array", "explode": false}), "x=1,%2C,b", json!(["1", ",", "b"])),
            (json!({"type": "array", "explode": false}), "x=1,2&x=3", json!(["1", "2", "3"])),
            (json!({"type": "array", "explode": false}), "x=", json!([])),
            (json!({"type": "array", "prefixItems": [{"type": "integer"}]}), "x=1&x=2", json!([1, "2"])),
            (json!({"type": "array", "default": ["a"]}), "", json!(["a"])),
        ] {
            let mut written = schema.clone();
            written["in"] = "query".into();
            let target: &'static str = Box::leak(format!("/a?{query}").into_boxed_str());
            let (values, details) = Ask::of(target).run(&params(json!({"x": written})));
            assert_eq!((&values[..], &details[..]), (&[expected][..], &[][..]), "{schema} {query}");
        }
    }

    #[test]
    fn every_place_is_read_in_its_own_spelling() {
        let params = params(json!({
            "id": {"in": "path"},
            "q": {"in": "query"},
            "X-Tenant": {"in": "header"},
            "x-tags": {"in": "header", "type": "array", "explode": false},
            "sid": {"in": "cookie"},
            "name": {"in": "form"},
        }));
        let ask = Ask {
            target: "/a+b%2Fc?q=a+b",
            headers: vec![
                ("x-tenant", " t%20 "),
                ("x-tags", "a, b"),
                ("x-tags", "c"),
                ("cookie", "other=1; sid=\"q%20\""),
                ("cookie", "z=2"),
            ],
            form: "name=J+D&other=1",
        };
        let (values, details) = ask.run(&params);
        assert_eq!(values, [json!("a+b/c"), json!("a b"), json!("t%20"), json!(["a", "b", "c"]), json!("q%20"), json!("J D")]);
        assert_eq!(details, []);
        assert!(params.need_form());
    }

    #[test]
    fn digits_are_kept() {
        let params = params(json!({"x": {"in": "query", "type": "number", "minimum": 1}}));
        let (head, ()) = http::Request::builder().uri("/?x=12345678901234567890.10").body(()).unwrap().into_parts();
        let given = Given { head: &head, names: &[], captures: &Vec::new(), form: Form::Absent };
        assert_eq!(params.coerce(&given), (vec![Value::Number("12345678901234567890.10".into())], vec![]));
    }

    #[test]
    fn every_fault_of_a_request_is_listed_by_the_place_of_its_keyword() {
        let params = params(json!({
            "id": {"in": "path", "type": "integer", "minimum": 1},
            "include": {"in": "query", "type": "array", "items": {"enum": ["orders", "tickets"]}, "maxItems": 2},
            "ids": {"in": "query", "type": "array", "items": {"type": "integer", "minimum": 5}},
            "page": {"in": "query", "type": "integer", "exclusiveMinimum": 1, "maximum": 50},
            "big": {"in": "query", "type": "integer", "format": "int32"},
            "mail": {"in": "query", "format": "email", "minLength": 9},
            "once": {"in": "query"},
            "escape": {"in": "query"},
            "X-Key": {"in": "header", "required": true},
            "a/b": {"in": "query", "type": "boolean"},
        }));
        let ask =
            Ask::of("/x?include=orders&include=a&include=b&ids=1&ids=x&page=-1&big=2147483648&mail=no&once=1&once=2&escape=%zz&a%2Fb=1");
        let (values, details) = ask.run(&params);
        let told: Vec<(&str, &str, &str)> = details.iter().map(|it| (&*it.0, &*it.1, &*it.2)).collect();
        assert_eq!(
            told,
            [
                ("/params/id/type", "path id", "must be integer but found 'x'"),
                ("/params/include/maxItems", "query include", "must have at most 2 items but found 3"),
                ("/params/include/items/enum", "query /include/1", "must be one of 'orders', 'tickets' but found 'a'"),
                ("/params/include/items/enum", "query /include/2", "must be one of 'orders', 'tickets' but found 'b'"),
                ("/params/ids/items/type", "query /ids/1", "must be integer but found 'x'"),
                ("/params/ids/items/minimum", "query /ids/0", "must be >= 5 but found 1"),
                ("/params/page/exclusiveMinimum", "query page", "must be > 1 but found -1"),
                ("/params/big/format", "query big", "must be a valid int32 but found 2147483648"),
                ("/params/mail/minLength", "query mail", "length must be >= 9 but found 2"),
                ("/params/mail/format", "query mail", "must be a valid email but found 'no'"),
                ("/params/once/type", "query once", "must be given once but found 2 times"),
                ("/params/escape/type", "query escape", "holds a % that is not followed by two hexadecimal digits"),
                ("/params/X-Key/required", "header X-Key", "missing parameter: 'X-Key'"),
                ("/params/a~1b/type", "query a/b", "must be boolean but found '1'"),
            ]
        );
        assert_eq!(values[0], json!(null));
        assert_eq!(values[2], json!(null), "a list with an item of another type");
        assert_eq!(values[3], json!(-1), "a value that breaks a rule is still seen");
    }

    #[test]
    fn at_most_a_hundred_faults_are_told() {
        let params = params(json!({"x": {"in": "query", "type": "array", "items": {"type": "integer"}}}));
        let target: &'static str = Box::leak(format!("/?{}", "x=a&".repeat(500)).into_boxed_str());
        assert_eq!(Ask::of(target).run(&params).1.len(), MOST_FAULTS);
    }

    #[test]
    fn a_definition_tells_every_fault_with_its_place() {
        let all = |written: Json| -> Vec<(String, String)> {
            let told = compile(written).expect_err("it has a fault");
            told.into_iter().map(|it| (it.pointer, format!("{} {}", it.message, it.help.unwrap_or_default()))).collect()
        };
        for (written, pointer, words) in [
            (json!({"x": 1}), "/x", "a map"),
            (json!({"x": {"type": "integer"}}), "/x", "`in` is missing"),
            (json!({"x": {"in": "qury"}}), "/x/in", "did you mean 'query'?"),
            (json!({"x": {"in": "body"}}), "/x/in", "inbound.body"),
            (json!({"x": {"in": "query", "minimun": 1, "type": "integer"}}), "/x/minimun", "did you mean 'minimum'?"),
            (json!({"x": {"in": "query", "min_length": 1}}), "/x/min_length", "did you mean 'minLength'?"),
            (json!({"x": {"in": "query", "requird": true}}), "/x/requird", "did you mean 'required'?"),
            (json!({"x": {"in": "query", "schema": {}}}), "/x/schema", "without `schema`"),
            (json!({"x": {"in": "query", "nullable": true}}), "/x/nullable", "'null'"),
            (json!({"x": {"in": "query", "type": "array", "items": {"enm": []}}}), "/x/items/enm", "did you mean 'enum'?"),
            (json!({"x": {"in": "query", "type": "int"}}), "/x/type", "did you mean 'integer'?"),
            (json!({"x": {"in": "query", "type": "strng"}}), "/x/type", "did you mean 'string'?"),
            (json!({"x": {"in": "query", "type": ["integer", null]}}), "/x/type/1", "quotes"),
            (json!({"x": {"in": "query", "type": "object"}}), "/x/type", "never an object"),
            (json!({"x": {"in": "query", "type": ["array", "string"]}}), "/x/type", "not either"),
            (json!({"x": {"in": "query", "type": "array", "items": {"type": "array"}}}), "/x/items/type", "single value"),
            (json!({"x": {"in": "query", "minLength": "2"}}), "/x/minLength", "must be integer"),
            (json!({"x": {"in": "query", "minLength": -2}}), "/x/minLength", "must be >= 0"),
            (json!({"x": {"in": "query", "required": "yes"}}), "/x/required", "true or false"),
            (json!({"x": {"in": "query", "explode": false}}), "/x/explode", "for lists"),
            (json!({"x": {"in": "query", "items": {}}}), "/x", "type: array"),
            (json!({"x": {"in": "query", "enum": [1, 2]}}), "/x/enum", "no type is string"),
            (json!({"x": {"in": "query", "minimum": 1}}), "/x/minimum", "no type is string"),
            (json!({"x": {"in": "query", "pattern": "("}}), "/x/pattern", "not a regular expression: unclosed group"),
            (json!({"x": {"in": "query", "pattern": "^(?!a"}}), "/x/pattern", "not a regular expression"),
            (json!({"x": {"in": "query", "format": "emial"}}), "/x/format", "did you mean 'email'?"),
            (json!({"x": {"in": "query", "type": "integer", "default": "1"}}), "/x/default", "must be integer but found '1'"),
            (json!({"x": {"in": "query", "type": "integer", "maximum": 5, "default": 9}}), "/x/default", "must be <= 5"),
            (json!({"x": {"in": "query", "default": 9}}), "/x/default", "no type is string"),
            (
                json!({"x": {"in": "query", "type": "array", "items": {"enum": ["a"]}, "default": ["a", "b"]}}),
                "/x/default/1",
                "must be one of 'a'",
            ),
            (json!({"idd": {"in": "path"}}), "/idd/in", "did you mean 'id'?"),
            (json!({"id": {"in": "path", "required": false}}), "/id/required", "always required"),
            (json!({"id": {"in": "path", "type": "array"}}), "/id", "explode: false"),
            (json!({"a b": {"in": "header"}}), "/a b", "header's name"),
            (json!({"a;b": {"in": "cookie"}}), "/a;b", "cookie's name"),
            (json!({"A": {"in": "header"}, "a": {"in": "header"}}), "/a", "same header"),
            (json!({"x": {"in": "query", "$ref": "https://example.com/x"}}), "/x", ""),
        ] {
            let told = all(written.clone());
            assert_eq!(told.len(), 1, "{written}: {told:?}");
            assert!(told[0].0.starts_with(pointer) && told[0].1.contains(words), "{written}: {told:?}");
        }
        let many = all(json!({"x": {"in": "qury", "minimun": 1}, "y": {"type": "int"}}));
        assert_eq!(many.iter().map(|it| &*it.0).collect::<Vec<_>>(), ["/x/in", "/x/minimun", "/y", "/y/type"]);
    }

    #[test]
    fn a_capture_need_not_be_declared_and_a_path_parameter_must_be_captured_by_every_pattern() {
        assert!(compile(json!({"id": {"in": "path"}})).is_ok());
        let Json::Object(map) = json!({"id": {"in": "path"}}) else { unreachable!() };
        let faults = Params::compile(&map, &[&["id".into()], &["other".into()]]).unwrap_err();
        assert_eq!(faults[0].help.as_deref(), Some("each pattern of the list must capture it"));
    }

    #[test]
    fn a_hostile_pattern_costs_time_that_grows_only_with_the_text() {
        let params = params(json!({"x": {"in": "query", "pattern": "^(a+)+$"}}));
        let target: &'static str = Box::leak(format!("/?x={}b", "a".repeat(20_000)).into_boxed_str());
        let started = std::time::Instant::now();
        assert_eq!(Ask::of(target).run(&params).1.len(), 1);
        assert!(started.elapsed().as_secs() < 2);
    }
}
