//! What an operation of the document says: parameters, bodies, answers, who may call.
use std::collections::BTreeMap;

use schemas::v1::{self, call::Target};
use serde_json::{Map, Value, json};

use super::{path::Route, published::Published, published::RingView, schema::Schemas};

/// What all operations of one Api have in common.
pub struct Described {
    pub id: String,
    api: String,
    common: Map<String, Value>,
    /// Declared parameters outside of the body.
    params: Vec<Value>,
    body: Option<Value>,
    responses: Map<String, Value>,
    security: Vec<Value>,
}

impl Described {
    pub fn of(api: &Published<'_>, schemas: &mut Schemas<'_>, all: &mut Map<String, Value>, notes: &mut Vec<String>) -> Self {
        let id = api.version.map_or_else(|| api.name.to_owned(), |it| format!("{}_{it}", api.name));
        let inbound = api.api.inbound.as_ref();
        let params: &[v1::Param] = inbound.map_or(&[], |it| &it.params);
        let (form, others): (Vec<_>, Vec<_>) = params.iter().partition(|it| it.r#in == "form");
        let body = body(&id, &form, inbound.and_then(|it| it.body.as_ref()), schemas);
        let responses = responses(api, &id, !params.is_empty(), body.is_some(), schemas);
        Self {
            api: api.shown(),
            common: common(api),
            params: others.into_iter().map(parameter).collect(),
            body,
            responses,
            security: security(api, all, notes),
            id,
        }
    }

    /// One operation. `captures` are the names of the pattern, `names` those of the path as it is shown.
    pub fn operation(&self, id: String, method: &str, route: &Route, captures: &[&str], names: &[String], server: &str) -> Value {
        let mut it = Map::new();
        it.insert("operationId".into(), id.into());
        it.extend(self.common.clone());
        it.insert("x-allium-api".into(), self.api.clone().into());
        let mut parameters = Vec::new();
        for (at, capture) in captures.iter().enumerate() {
            let declared = self.params.iter().find(|it| it["in"] == "path" && it["name"] == *capture);
            let mut param =
                declared.cloned().unwrap_or_else(|| json!({"name": capture, "in": "path", "required": true, "schema": {"type": "string"}}));
            // The path may have been written by another Api first, with other names.
            param["name"] = names.get(at).map_or(*capture, String::as_str).into();
            if route.rest() == Some(*capture) {
                param["description"] = "The rest of the path: one or more segments, with the slashes between them.".into();
                param["x-allium-rest"] = true.into();
            }
            parameters.push(param);
        }
        parameters.extend(self.params.iter().filter(|it| it["in"] != "path").cloned());
        if !parameters.is_empty() {
            it.insert("parameters".into(), parameters.into());
        }
        if let Some(body) = self.body.as_ref().filter(|_| !matches!(method, "GET" | "HEAD" | "TRACE")) {
            it.insert("requestBody".into(), body.clone());
        }
        it.insert("responses".into(), Value::Object(self.responses.clone()));
        if !self.security.is_empty() {
            it.insert("security".into(), self.security.clone().into());
        }
        if let Some(host) = route.host.as_deref() {
            it.insert("servers".into(), json!([server_of(host, server)]));
        }
        Value::Object(it)
    }
}

/// Where a host is reached: by the scheme of the server that was asked for.
fn server_of(host: &str, server: &str) -> Value {
    let scheme = server.split_once("://").map_or("https", |it| it.0);
    match host.strip_prefix("*.") {
        None => json!({"url": format!("{scheme}://{host}")}),
        Some(domain) => json!({
            "url": format!("{scheme}://{{subdomain}}.{domain}"),
            "variables": {"subdomain": {"default": "www", "description": format!("Any name below {domain}.")}},
        }),
    }
}

fn common(api: &Published<'_>) -> Map<String, Value> {
    let mut it = Map::new();
    let mut add = |key: &str, value: Option<Value>| drop(value.map(|value| it.insert(key.into(), value)));
    let info = api.api.info.clone().unwrap_or_default();
    add("summary", info.summary.map(Value::from));
    add("description", info.description.map(Value::from));
    add("tags", Some(info.tags).filter(|it| !it.is_empty()).map(Value::from));
    add("x-owner", info.owner.map(Value::from));
    if let Some(life) = info.lifecycle {
        add("deprecated", (life.state.as_deref() == Some("deprecated")).then(|| true.into()));
        add("x-sunset", life.sunset.map(Value::from));
        let successor = life.successor.map(|it| it.version.map_or_else(|| it.name.clone(), |version| format!("{}@{version}", it.name)));
        add("x-successor", successor.map(Value::from));
    }
    let limits: Vec<Value> = api.rings.iter().filter(|it| &*it.name == "rate-limit").map(|it| public(&it.config)).collect();
    add("x-rate-limits", Some(limits).filter(|it| !it.is_empty()).map(Value::from));
    it
}

/// What of a limit a client may know: how much, not how it is counted.
fn public(config: &Value) -> Value {
    let shown = ["rate", "burst", "algorithm", "cost", "limit", "window"];
    config
        .as_object()
        .map(|it| it.iter().filter(|(key, _)| shown.contains(&key.as_str())).map(|(k, v)| (k.clone(), v.clone())).collect())
        .map_or(Value::Null, Value::Object)
}

fn parameter(it: &v1::Param) -> Value {
    let schema = schema_of(it);
    let array = schema["type"] == "array";
    let mut param =
        json!({"name": it.name, "in": it.r#in, "required": it.r#in == "path" || it.required.unwrap_or(false), "schema": schema});
    if let Some(words) = param["schema"].as_object_mut().and_then(|it| it.remove("description")) {
        param["description"] = words;
    }
    if array && it.explode == Some(false) && matches!(it.r#in.as_str(), "query" | "cookie") {
        param["explode"] = false.into();
    }
    param
}

fn schema_of(it: &v1::Param) -> Value {
    let mut schema: Value = it.schema.as_ref().and_then(|it| serde_json::from_str(&it.text).ok()).unwrap_or_else(|| json!({}));
    if let Some(it) = schema.as_object_mut()
        && !it.contains_key("type")
        && !it.contains_key("enum")
    {
        it.insert("type".into(), "string".into());
    }
    schema
}

fn body(id: &str, form: &[&v1::Param], body: Option<&v1::InboundBody>, schemas: &mut Schemas<'_>) -> Option<Value> {
    let named: Vec<&str> = body.map_or(Vec::new(), |it| it.content.iter().map(String::as_str).collect());
    let schema = match body.and_then(|it| it.schema.as_ref()) {
        Some(it) => schemas.put(&format!("{id}.request"), it),
        None if form.is_empty() => None,
        None => {
            let properties: Map<String, Value> = form.iter().map(|it| (it.name.clone(), schema_of(it))).collect();
            let required: Vec<&str> = form.iter().filter(|it| it.required == Some(true)).map(|it| it.name.as_str()).collect();
            let mut object = json!({"type": "object", "properties": properties});
            if !required.is_empty() {
                object["required"] = required.into();
            }
            Some(object)
        }
    };
    if body.is_none() && form.is_empty() {
        return None;
    }
    let types = match (named.is_empty(), form.is_empty(), &schema) {
        (false, ..) => named,
        (true, false, _) => vec!["application/x-www-form-urlencoded"],
        (true, true, Some(_)) => vec!["application/json"],
        (true, true, None) => vec!["*/*"],
    };
    let content: Map<String, Value> =
        types.into_iter().map(|it| (it.to_owned(), schema.as_ref().map_or_else(|| json!({}), |it| json!({"schema": it})))).collect();
    let required = body.is_some_and(|it| it.schema.is_some()) || form.iter().any(|it| it.required == Some(true));
    Some(json!({"required": required, "content": content}))
}

fn responses(api: &Published<'_>, id: &str, params: bool, body: bool, schemas: &mut Schemas<'_>) -> Map<String, Value> {
    let mut all: BTreeMap<u16, Value> = BTreeMap::new();
    let target = api.api.proxy.as_ref().and_then(|it| it.target.as_ref());
    let outbound = api.api.outbound.as_ref();
    let schema = outbound.and_then(|it| it.schema.as_ref()).and_then(|it| schemas.put(&format!("{id}.response"), it));
    let (status, mut answer) = match target {
        Some(Target::Respond(it)) => (it.status.unwrap_or(200), respond(it)),
        Some(Target::Redirect(it)) => (
            it.status.unwrap_or(302),
            json!({"description": "The client is sent elsewhere.", "headers": {"Location": {"schema": {"type": "string"}}}}),
        ),
        _ => (200, json!({"description": "The answer."})),
    };
    if let Some(schema) = schema {
        answer["content"] = json!({"application/json": {"schema": schema}});
    }
    let mut errors: Vec<(u16, &RingView)> = Vec::new();
    for ring in &api.rings {
        let codes =
            ring.answers.split(|it: char| !it.is_ascii_digit()).filter_map(|it| it.parse().ok()).filter(|it| (400..600).contains(it));
        errors.extend(codes.map(|it| (it, ring)));
    }
    for (code, ring) in errors {
        all.entry(code).or_insert_with(|| error(code, Some(&ring.name)));
    }
    if params || body {
        all.entry(400).or_insert_with(|| error(400, None));
    }
    if body {
        all.entry(413).or_insert_with(|| error(413, None));
        all.entry(415).or_insert_with(|| error(415, None));
    }
    if !matches!(target, None | Some(Target::Respond(_) | Target::Redirect(_))) {
        for code in [502, 503, 504] {
            all.entry(code).or_insert_with(|| error(code, None));
        }
    }
    let mut out = Map::new();
    out.insert(status.to_string(), answer);
    for (code, it) in all {
        out.entry(code.to_string()).or_insert(it);
    }
    out
}

fn respond(it: &v1::Respond) -> Value {
    let mut answer = json!({"description": "An answer of the gateway's own."});
    let text = it.body.as_ref().and_then(|it| match it.written.as_ref()? {
        v1::body::Written::Json(it) => Some(&it.text),
        _ => None,
    });
    // One with expressions in it is no example of what comes out.
    if let Some(example) = text.filter(|it| !it.contains("${")).and_then(|it| serde_json::from_str::<Value>(it).ok()) {
        answer["content"] = json!({"application/json": {"example": example}});
    }
    answer
}

fn error(code: u16, ring: Option<&str>) -> Value {
    let words = match code {
        400 => "The request is not what is declared.",
        401 => "Nobody, or nobody known, is calling.",
        403 => "The caller may not do this.",
        413 => "The body is too large.",
        415 => "The body's media type is not accepted.",
        429 => "Too many requests.",
        502 => "The backend cannot be reached, or does not speak its protocol.",
        503 => "No backend takes requests at present.",
        504 => "The backend did not answer in time.",
        _ => "The gateway answers in place of the backend.",
    };
    let description = ring.map_or_else(|| words.to_owned(), |it| format!("{words} Answered by `{it}`."));
    let mut it = json!({
        "description": description,
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/Error"}},
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}},
        },
    });
    let named = |it: &str| json!({"$ref": format!("#/components/headers/{it}")});
    match code {
        429 => {
            it["headers"] =
                json!({"Retry-After": named("Retry-After"), "RateLimit": named("RateLimit"), "RateLimit-Policy": named("RateLimit-Policy")})
        }
        503 => it["headers"] = json!({"Retry-After": named("Retry-After")}),
        _ => (),
    }
    it
}

/// What the gateway's own answers look like.
pub fn error_schemas() -> Value {
    json!({
        "Error": {
            "type": "object",
            "description": "An answer of the gateway's own.",
            "required": ["code", "message", "request_id"],
            "properties": {
                "code": {"type": "integer", "description": "The status."},
                "message": {"type": "string", "description": "What is wrong, in a sentence."},
                "details": {
                    "type": "object",
                    "description": "Every fault, by the place of the keyword that failed.",
                    "additionalProperties": {"type": "string"},
                },
                "request_id": {"type": "string", "description": "As in the header x-request-id; whoever looks into it needs it."},
            },
        },
        "Problem": {
            "type": "object",
            "description": "The same for clients that accept application/problem+json (RFC 9457).",
            "properties": {
                "type": {"type": "string"},
                "title": {"type": "string"},
                "status": {"type": "integer"},
                "detail": {"type": "string"},
                "request_id": {"type": "string"},
                "errors": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "in": {"type": "string"},
                            "pointer": {"type": "string"},
                            "schema": {"type": "string"},
                            "detail": {"type": "string"},
                        },
                    },
                },
            },
        },
    })
}

/// Headers of the gateway's own answers.
pub fn headers() -> Value {
    json!({
        "Retry-After": {"description": "Seconds until another try may pass (RFC 9110 §10.2.3).", "schema": {"type": "integer"}},
        "RateLimit": {"description": "What is left of the limit.", "schema": {"type": "string"}},
        "RateLimit-Policy": {"description": "The limit.", "schema": {"type": "string"}},
    })
}

/// Who may call: one scheme for each ring that says who is calling.
/// The innermost that asks for a proof ends a row of `any of` with those `optional` ones outside of it that take its place.
fn security(api: &Published<'_>, all: &mut Map<String, Value>, notes: &mut Vec<String>) -> Vec<Value> {
    let mut any_of: Vec<Value> = Vec::new();
    let mut needed = false;
    for ring in api.rings.iter().filter(|it| it.authenticates) {
        if ring.sometimes {
            notes.push(format!(
                "{}: `{}` runs on a condition, so the document asks for no proof of who is calling",
                api.shown(),
                ring.name
            ));
            continue;
        }
        let (name, scheme) = scheme(ring);
        all.insert(name.clone(), scheme);
        // What stands inside of one that asks is passed with its proof, and asks for none.
        if !needed {
            any_of.push(json!({name: []}));
        }
        needed |= ring.config.get("optional") != Some(&Value::Bool(true));
    }
    if !any_of.is_empty() && !needed {
        any_of.push(json!({}));
    }
    any_of
}

fn scheme(ring: &RingView) -> (String, Value) {
    let text = |key: &str| ring.config.get(key).and_then(Value::as_str);
    match &*ring.name {
        "jwt" => ("jwt".into(), json!({"type": "http", "scheme": "bearer", "bearerFormat": "JWT"})),
        "basic-auth" => ("basic".into(), json!({"type": "http", "scheme": "basic"})),
        "key-auth" => {
            let places = [("header", "header"), ("query", "query"), ("cookie", "cookie")];
            let found = places.into_iter().find_map(|(key, place)| Some((place, text(key)?)));
            let (place, name) = found.unwrap_or(("header", "x-api-key"));
            (format!("key_{place}_{name}"), json!({"type": "apiKey", "in": place, "name": name}))
        }
        other => (
            other.to_owned(),
            json!({"type": "apiKey", "in": "header", "name": "Authorization", "description": format!("As the plugin {other} reads it.")}),
        ),
    }
}
