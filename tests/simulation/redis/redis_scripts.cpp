// EVAL and EVALSHA: the queue's real scripts in Lua 5.1.
#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>
#include <lua.hpp>
#include <nlohmann/json.hpp>
#include <openssl/evp.h>

#include "tests/simulation/redis/lua_memory.h"
#include "tests/simulation/redis/redis_arguments.h"
#include "tests/simulation/redis/redis_model.h"

namespace foretime::simulation {
namespace {

std::string sha1_of(const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr);
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

}  // namespace

/// What scripts may call, with Redis' conversions between Lua and its answers (redis.io, "Lua API reference").
struct LuaCalls {
  static RedisModel& model_of(lua_State* lua) {
    return *static_cast<RedisModel*>(lua_touserdata(lua, lua_upvalueindex(1)));
  }

  static void push(lua_State* lua, const Answer& answer) {
    switch (answer.kind) {
      case Answer::Kind::nil: lua_pushboolean(lua, 0); return;
      case Answer::Kind::integer: lua_pushnumber(lua, static_cast<lua_Number>(answer.integer)); return;
      case Answer::Kind::text: lua_pushlstring(lua, answer.text.data(), answer.text.size()); return;
      case Answer::Kind::status:
      case Answer::Kind::error:
        lua_newtable(lua);
        lua_pushlstring(lua, answer.text.data(), answer.text.size());
        lua_setfield(lua, -2, answer.kind == Answer::Kind::status ? "ok" : "err");
        return;
      case Answer::Kind::array: break;
    }
    lua_createtable(lua, static_cast<int>(answer.elements.size()), 0);
    for (size_t i = 0; i < answer.elements.size(); ++i) {
      push(lua, answer.elements[i]);
      lua_rawseti(lua, -2, static_cast<int>(i + 1));
    }
  }

  static Answer pop(lua_State* lua) {
    Answer answer;
    switch (lua_type(lua, -1)) {
      case LUA_TSTRING: {
        size_t size = 0;
        const char* text = lua_tolstring(lua, -1, &size);
        answer = Answer::of(std::string(text, size));
        break;
      }
      case LUA_TNUMBER: answer = Answer::of(static_cast<int64_t>(lua_tonumber(lua, -1))); break;
      case LUA_TBOOLEAN:
        if (lua_toboolean(lua, -1) != 0) answer = Answer::of(1);
        break;
      case LUA_TTABLE: answer = pop_table(lua); break;
      default: break;
    }
    lua_pop(lua, 1);
    return answer;
  }

  static Answer pop_table(lua_State* lua) {
    for (const char* field : {"err", "ok"}) {
      lua_getfield(lua, -1, field);
      if (lua_type(lua, -1) == LUA_TSTRING) {
        std::string text = lua_tostring(lua, -1);
        lua_pop(lua, 1);
        return field[0] == 'e' ? Answer::error(text) : Answer{Answer::Kind::status, 0, text, {}};
      }
      lua_pop(lua, 1);
    }
    auto answer = Answer::array();
    for (int i = 1;; ++i) {
      lua_rawgeti(lua, -1, i);
      if (lua_isnil(lua, -1)) {
        lua_pop(lua, 1);
        return answer;
      }
      answer.elements.push_back(pop(lua));
    }
  }

  static int call(lua_State* lua) { return call_as(lua, false); }
  /// redis.pcall: an error is a table with the field err.
  static int protected_call(lua_State* lua) { return call_as(lua, true); }

  static int call_as(lua_State* lua, bool is_protected) {
    auto& model = model_of(lua);
    auto& command = model.of_script_;  // a script's command runs no script; and lua_error jumps over destructors
    const int size = lua_gettop(lua);
    command.resize(static_cast<size_t>(size));
    for (int i = 1; i <= size; ++i) {
      auto& argument = command[static_cast<size_t>(i - 1)];
      if (lua_type(lua, i) == LUA_TNUMBER) {
        argument = score_text(lua_tonumber(lua, i));
      } else if (lua_type(lua, i) == LUA_TSTRING) {
        size_t bytes = 0;
        const char* text = lua_tolstring(lua, i, &bytes);
        argument.assign(text, bytes);
      } else {
        return luaL_error(lua, "Lua redis lib command arguments must be strings or integers");
      }
    }
    bool failed = false;
    {
      const auto answer = model.perform(command);
      failed = answer.kind == Answer::Kind::error && !is_protected;
      if (failed) lua_pushlstring(lua, answer.text.data(), answer.text.size());
      else push(lua, answer);
    }
    return failed ? lua_error(lua) : 1;
  }

  static int error_reply(lua_State* lua) {
    lua_newtable(lua);
    lua_pushvalue(lua, 1);
    lua_setfield(lua, -2, "err");
    return 1;
  }

  static void push_json(lua_State* lua, const nlohmann::json& json) {
    if (json.is_string()) {
      lua_pushstring(lua, json.get_ref<const std::string&>().c_str());
    } else if (json.is_number()) {
      lua_pushnumber(lua, json.get<double>());
    } else if (json.is_boolean()) {
      lua_pushboolean(lua, json.get<bool>() ? 1 : 0);
    } else if (json.is_array()) {
      lua_newtable(lua);
      for (size_t i = 0; i < json.size(); ++i) {
        push_json(lua, json[i]);
        lua_rawseti(lua, -2, static_cast<int>(i + 1));
      }
    } else if (json.is_object()) {
      lua_newtable(lua);
      for (const auto& [name, value] : json.items()) {
        push_json(lua, value);
        lua_setfield(lua, -2, name.c_str());
      }
    } else {
      lua_pushnil(lua);
    }
  }

  static int decode(lua_State* lua) {
    bool sound = false;
    {
      const auto json = nlohmann::json::parse(std::string(luaL_checkstring(lua, 1)), nullptr, false);
      sound = !json.is_discarded();
      if (sound) push_json(lua, json);
    }
    return sound ? 1 : luaL_error(lua, "Expected value but found invalid token");
  }

  /// cmsgpack.pack of an array of strings.
  static int pack(lua_State* lua) {
    luaL_checktype(lua, 1, LUA_TTABLE);
    {
      auto list = nlohmann::json::array();
      const int size = static_cast<int>(lua_objlen(lua, 1));
      for (int i = 1; i <= size; ++i) {
        lua_rawgeti(lua, 1, i);
        size_t bytes = 0;
        const char* text = lua_tolstring(lua, -1, &bytes);
        list.push_back(text == nullptr ? std::string() : std::string(text, bytes));
        lua_pop(lua, 1);
      }
      std::string packed;
      nlohmann::json::to_msgpack(list, packed);
      lua_pushlstring(lua, packed.data(), packed.size());
    }
    return 1;
  }
};

struct RedisModel::Lua {
  LuaMemory memory;
  lua_State* state = lua_newstate(LuaMemory::allocate, &memory);
  ~Lua() { lua_close(state); }
};

RedisModel::RedisModel(std::function<int64_t()> now_us)
    : now_us_(std::move(now_us)), interpreter_(std::make_unique<Lua>()), lua_(interpreter_->state) {
  luaL_openlibs(lua_);
  lua_newtable(lua_);
  lua_pushlightuserdata(lua_, this);
  lua_pushcclosure(lua_, LuaCalls::call, 1);
  lua_setfield(lua_, -2, "call");
  lua_pushlightuserdata(lua_, this);
  lua_pushcclosure(lua_, LuaCalls::protected_call, 1);
  lua_setfield(lua_, -2, "pcall");
  lua_pushcfunction(lua_, LuaCalls::error_reply);
  lua_setfield(lua_, -2, "error_reply");
  lua_setglobal(lua_, "redis");
  lua_newtable(lua_);
  lua_pushcfunction(lua_, LuaCalls::decode);
  lua_setfield(lua_, -2, "decode");
  lua_setglobal(lua_, "cjson");
  lua_newtable(lua_);
  lua_pushcfunction(lua_, LuaCalls::pack);
  lua_setfield(lua_, -2, "pack");
  lua_setglobal(lua_, "cmsgpack");
}

RedisModel::~RedisModel() = default;

Answer RedisModel::load(const Command& command) {
  const auto sha1 = sha1_of(command[1]);
  if (scripts_.count(sha1) == 0) {
    // "#!lua flags=…", which Lua itself does not take. The end of that line stays, for the numbers of lines.
    Flags flags;
    std::string body = edit_script ? edit_script(command[1]) : command[1];
    if (body.starts_with("#!")) {
      const auto end = std::min(body.find('\n'), body.size());
      const auto line = body.substr(0, end);
      body.erase(0, end);
      if (!line.starts_with("#!lua"))
        return Answer::error("ERR Unexpected engine in script shebang: " + line.substr(2));
      flags = {true, line.find("allow-oom") != std::string::npos};
    }
    if (luaL_loadbuffer(lua_, body.data(), body.size(), "@user_script") != 0) {
      const std::string what = lua_tostring(lua_, -1);
      lua_pop(lua_, 1);
      return Answer::error("ERR Error compiling script (new function): " + what);
    }
    scripts_[sha1] = {luaL_ref(lua_, LUA_REGISTRYINDEX), flags};
  }
  auto by_name = command;
  by_name[1] = sha1;
  return evaluate(by_name);
}

Answer RedisModel::evaluate(const Command& command) {
  const auto script = scripts_.find(command[1]);
  if (script == scripts_.end()) return Answer::error("NOSCRIPT No matching script. Please use EVAL.");
  // What Redis checks before it runs a script that declares flags (scriptPrepareForRun).
  const auto flags = script->second.flags;
  if (flags.declared && trouble.replica) return Answer::error("READONLY You can't write against a read only replica.");
  if (flags.declared && trouble.disk_error)
    return Answer::error(
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Writable "
        "scripts are blocked. Use 'no-writes' flag for read only scripts.");
  if (flags.declared && trouble.full && !flags.allow_oom)
    return Answer::error("OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'");
  const auto keys = static_cast<size_t>(integer_from(command[2]));
  const auto give = [&](const char* name, size_t begin, size_t end) {
    lua_createtable(lua_, static_cast<int>(end - begin), 0);
    for (size_t i = begin; i < end; ++i) {
      lua_pushlstring(lua_, command[i].data(), command[i].size());
      lua_rawseti(lua_, -2, static_cast<int>(i - begin + 1));
    }
    lua_setglobal(lua_, name);
  };
  give("KEYS", 3, 3 + keys);
  give("ARGV", 3 + keys, command.size());
  lua_rawgeti(lua_, LUA_REGISTRYINDEX, script->second.reference);
  in_script_ = true;
  allow_oom_ = flags.allow_oom;
  script_wrote_ = false;
  const int failed = lua_pcall(lua_, 0, 1, 0);
  in_script_ = script_wrote_ = allow_oom_ = false;
  if (failed == 0) return LuaCalls::pop(lua_);
  std::string what = lua_tostring(lua_, -1) != nullptr ? lua_tostring(lua_, -1) : "an error without a text";
  lua_pop(lua_, 1);
  // What a script wrote before it failed stays written, in Redis as here.
  const bool of_redis = !what.empty() && std::isupper(static_cast<unsigned char>(what[0])) != 0;
  return Answer::error((of_redis ? what : "ERR " + what) + " script: " + command[1] + ", on @user_script:1.");
}

}  // namespace foretime::simulation
