//! Scripts in a running gateway: from a file, with a module, changed while it runs, and failing.
use tests::{
    backend::Backend,
    harness::{Gateway, echo_api},
};

const HOOK: &str = "local text = require('util.text')
local M = {}
function M.on_request(req, ctx)
  ctx.vars.tenant = text.trim(req.headers['x-tenant'])
  req.headers['x-tenant-id'] = ctx.vars.tenant
end
function M.on_response(req, res, ctx)
  res.headers['x-tenant'] = ctx.vars.tenant
end
return M
";
const MODULE: &str = "return {trim = function(s) return (s:gsub('^%s*(.-)%s*$', '%1')) end}";

#[tokio::test]
async fn a_script_of_a_file_shapes_request_and_answer() {
    let backend = Backend::echo().await;
    let api = echo_api(backend.address, "/a", "plugins: [{lua: {file: lua/hooks/tenant.lua}}]");
    let gateway = Gateway::with(&api).file("lua/hooks/tenant.lua", HOOK).file("lua/util/text.lua", MODULE).start().await;
    let answer = gateway.ask("GET /a", &["x-tenant: t1", "x_tenant_id: forged"], "").await.is(200);
    assert_eq!((backend.last().head.all("x-tenant-id"), backend.last().head.all("x_tenant_id")), (vec!["t1"], vec![]));
    assert_eq!(answer.header("x-tenant"), Some("t1"));

    // Without the header, the script fails: the request's id, and nothing of the script.
    let answer = gateway.get("/a").await.is(500);
    let text = answer.json().to_string();
    assert!(!text.contains("lua") && !text.contains("nil"), "{text}");
    let figures = gateway.admin("/metrics").await.is(200);
    let figures = String::from_utf8_lossy(&figures.body).into_owned();
    assert!(figures.contains("allium_lua_calls_total{") && figures.contains("allium_lua_errors_total{"), "{figures}");
}

#[tokio::test]
async fn a_script_with_a_mistake_is_a_fault_with_file_and_line() {
    let api = echo_api("127.0.0.1:1".parse().unwrap(), "/a", "plugins: [{lua: {file: lua/bad.lua}}]");
    let Err(why) = Gateway::with(&api).file("lua/bad.lua", "local M = {}\nM.on_request = function(\nreturn M").try_start().await else {
        panic!("the script has a mistake")
    };
    assert!(why.contains("lua/bad.lua:3:"), "{why}");
}
