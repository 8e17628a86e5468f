---@meta
-- What scripts of Allium see, for editors with LuaLS.

---@class allium.Names: { [string]: string? }

---@class allium.Request
---@field method string
---@field path string
---@field headers allium.Names
---@field query allium.Names
---@field cookies allium.Names
---@field params { [string]: any }
---@field client_ip string
local Request = {}

---The bytes of the body; waits until they are there.
---@return string
function Request:body() end

---@return any
function Request:json() end

---@param text string
function Request:set_body(text) end

---@param value any
function Request:set_json(value) end

---@class allium.Response
---@field status integer
---@field headers allium.Names
local Response = {}

---@return string
function Response:body() end

---@return any
function Response:json() end

---@param text string
function Response:set_body(text) end

---@param value any
function Response:set_json(value) end

---@class allium.Answer

---@class allium.Context
---@field vars { [string]: any }
---@field id string
---@field api string
---@field respond fun(status: integer, body?: any, headers?: table<string, string|number|boolean>): allium.Answer

---@class allium.Hooks
---@field on_request? fun(req: allium.Request, ctx: allium.Context): allium.Answer?
---@field on_response? fun(req: allium.Request, res: allium.Response, ctx: allium.Context): allium.Answer?

---@class allium.Coding
---@field encode fun(bytes: string): string
---@field decode fun(text: string): string?

allium = {
  json = {
    null = nil, ---@type userdata
    ---@param text string
    ---@return any
    decode = function(text) end,
    ---@param value any
    ---@return string
    encode = function(value) end,
    ---@param items? table
    ---@return table
    array = function(items) end,
    ---@param digits string
    ---@return userdata
    integer = function(digits) end,
  },
  log = {
    error = function(...) end,
    warn = function(...) end,
    info = function(...) end,
    debug = function(...) end,
  },
  cache = {
    ---@param key string
    ---@return string?
    get = function(key) end,
    ---@param key string
    ---@param text string
    ---@param seconds number
    ---@return boolean
    set = function(key, text, seconds) end,
    ---@param key string
    delete = function(key) end,
  },
  base64 = {}, ---@type allium.Coding
  base64url = {}, ---@type allium.Coding
  hex = {}, ---@type allium.Coding
  url = {}, ---@type allium.Coding
  ---@param text string
  ---@return string bytes
  sha256 = function(text) end,
  ---@param key string
  ---@param text string
  ---@param algorithm? "sha1"|"sha256"|"sha384"|"sha512"
  ---@return string bytes
  hmac = function(key, text, algorithm) end,
  ---@return string
  uuid = function() end,
  ---@return number seconds since 1970
  now = function() end,
}
