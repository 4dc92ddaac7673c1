#include "tests/simulation/redis_model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <lua.hpp>
#include <nlohmann/json.hpp>
#include <openssl/evp.h>

namespace foretime::simulation {
namespace {

constexpr const char* kWrongType = "WRONGTYPE Operation against a key holding the wrong kind of value";
constexpr const char* kNotAnInteger = "ERR value is not an integer or out of range";
constexpr const char* kNotAFloat = "ERR value is not a valid float";

/// Raised inside a command, answered as an error.
struct Refusal {
  std::string text;
};

/// Memory for Lua: scripts make and drop many small objects, for which malloc takes longer than the scripts.
class LuaMemory {
 public:
  ~LuaMemory() {
    for (char* block : blocks_) delete[] block;
  }
  static void* allocate(void* self, void* old, size_t old_size, size_t size) {
    return static_cast<LuaMemory*>(self)->resize(old, old_size, size);
  }

 private:
  static constexpr size_t kUnit = 16, kClasses = 32, kBlock = 64 << 10;
  struct Free {
    Free* next;
  };
  static size_t class_of(size_t size) { return (size + kUnit - 1) / kUnit; }

  void* resize(void* old, size_t old_size, size_t size) {
    const auto from = class_of(old_size), to = class_of(size);
    if (old != nullptr && from == to) return old;
    if (old != nullptr && from >= kClasses && to >= kClasses) return std::realloc(old, size);
    void* fresh = size == 0 ? nullptr : take(size, to);
    if (old == nullptr) return fresh;
    if (fresh != nullptr) std::memcpy(fresh, old, std::min(old_size, size));
    if (from >= kClasses) {
      std::free(old);
    } else {
      free_[from] = new (old) Free{free_[from]};
    }
    return fresh;
  }
  void* take(size_t size, size_t to) {
    if (to >= kClasses) return std::malloc(size);
    if (Free* first = free_[to]) {
      free_[to] = first->next;
      return first;
    }
    if (left_ < to * kUnit) {
      blocks_.push_back(new char[kBlock]);
      at_ = blocks_.back();
      left_ = kBlock;
    }
    left_ -= to * kUnit;
    return std::exchange(at_, at_ + to * kUnit);
  }

  std::vector<char*> blocks_;
  char* at_ = nullptr;
  size_t left_ = 0;
  std::array<Free*, kClasses> free_{};
};

int64_t integer_from(const std::string& text) {
  int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) throw Refusal{kNotAnInteger};
  return value;
}

double number_from(const std::string& text) {
  if (text == "+inf" || text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  int64_t whole = 0;
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (failure == std::errc() && stop == text.data() + text.size()) return static_cast<double>(whole);
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size() || std::isnan(value)) throw Refusal{kNotAFloat};
  return value;
}

bool same_word(const std::string& text, const char* word) {
  return text.size() == std::strlen(word) &&
         std::equal(text.begin(), text.end(), word, [](char a, char b) { return std::toupper(a) == b; });
}

/// A bound of ZRANGEBYSCORE and ZCOUNT: "5", "(5", "-inf", "+inf".
struct Bound {
  double value;
  bool open;
  explicit Bound(const std::string& text) : value(0), open(!text.empty() && text[0] == '(') {
    try {
      value = number_from(text.substr(open ? 1 : 0));
    } catch (const Refusal&) {
      throw Refusal{"ERR min or max is not a float"};
    }
  }
  bool below(double score) const { return open ? value < score : value <= score; }
  bool above(double score) const { return open ? score < value : score <= value; }
};

std::string sha1_of(const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr);
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

/// Redis' indices of a range: negative ones count from the end. Empty where first > last.
std::pair<int64_t, int64_t> range_of(const std::string& first, const std::string& last, int64_t size) {
  int64_t begin = integer_from(first), end = integer_from(last);
  if (begin < 0) begin = std::max<int64_t>(0, begin + size);
  if (end < 0) end += size;
  return {begin, std::min(end, size - 1)};
}

}  // namespace

std::string score_text(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (std::abs(value) < 1e15 && value == std::trunc(value) && (value != 0 || !std::signbit(value)))
    return std::to_string(static_cast<int64_t>(value));
  return fmt::format("{:.17g}", value);
}

std::string Answer::wire() const {
  switch (kind) {
    case Kind::nil:
      return "$-1\r\n";
    case Kind::integer:
      return fmt::format(":{}\r\n", integer);
    case Kind::status:
      return fmt::format("+{}\r\n", text);
    case Kind::error:
      return fmt::format("-{}\r\n", text);
    case Kind::text:
      return fmt::format("${}\r\n", text.size()) + text + "\r\n";
    case Kind::array:
      break;
  }
  auto bytes = fmt::format("*{}\r\n", elements.size());
  for (const auto& element : elements) bytes += element.wire();
  return bytes;
}

bool SortedSet::set(const std::string& member, double score) {
  const auto [at, is_new] = scores_.try_emplace(member, score);
  if (!is_new) {
    order_.erase({at->second, member});
    at->second = score;
  }
  order_.insert({score, member});
  return is_new;
}

bool SortedSet::erase(const std::string& member) {
  const auto at = scores_.find(member);
  if (at == scores_.end()) return false;
  order_.erase({at->second, member});
  scores_.erase(at);
  return true;
}

std::optional<double> SortedSet::score(const std::string& member) const {
  const auto at = scores_.find(member);
  return at == scores_.end() ? std::nullopt : std::optional(at->second);
}

/// What scripts may call, with Redis' conversions between Lua and its answers (redis.io, "Lua API reference").
struct LuaCalls {
  static RedisModel& model_of(lua_State* lua) {
    return *static_cast<RedisModel*>(lua_touserdata(lua, lua_upvalueindex(1)));
  }

  static void push(lua_State* lua, const Answer& answer) {
    switch (answer.kind) {
      case Answer::Kind::nil:
        lua_pushboolean(lua, 0);
        return;
      case Answer::Kind::integer:
        lua_pushnumber(lua, static_cast<lua_Number>(answer.integer));
        return;
      case Answer::Kind::text:
        lua_pushlstring(lua, answer.text.data(), answer.text.size());
        return;
      case Answer::Kind::status:
      case Answer::Kind::error:
        lua_newtable(lua);
        lua_pushlstring(lua, answer.text.data(), answer.text.size());
        lua_setfield(lua, -2, answer.kind == Answer::Kind::status ? "ok" : "err");
        return;
      case Answer::Kind::array:
        break;
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
      case LUA_TNUMBER:
        answer = Answer::of(static_cast<int64_t>(lua_tonumber(lua, -1)));
        break;
      case LUA_TBOOLEAN:
        if (lua_toboolean(lua, -1) != 0) answer = Answer::of(1);
        break;
      case LUA_TTABLE:
        answer = pop_table(lua);
        break;
      default:
        break;
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
      if (failed)
        lua_pushlstring(lua, answer.text.data(), answer.text.size());
      else
        push(lua, answer);
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
}

RedisModel::~RedisModel() = default;

const std::unordered_map<std::string, RedisModel::Handler>& RedisModel::handlers() {
  using M = RedisModel;
  constexpr bool kWrites = true, kGrows = true;
  static const std::unordered_map<std::string, Handler> table = {
      {"PING", {1, false, false, &M::ping}},
      {"INFO", {1, false, false, &M::info}},
      {"CONFIG", {3, false, false, &M::config}},
      {"CLIENT", {2, false, false, &M::client}},
      {"AUTH", {2, false, false, &M::client}},
      {"SELECT", {2, false, false, &M::select}},
      {"TIME", {1, false, false, &M::time}},
      {"GET", {2, false, false, &M::get}},
      {"SET", {3, kWrites, kGrows, &M::set}},
      {"INCR", {2, kWrites, kGrows, &M::incr}},
      {"DEL", {2, kWrites, false, &M::del}},
      {"PERSIST", {2, kWrites, false, &M::persist}},
      {"EXISTS", {2, false, false, &M::exists}},
      {"TYPE", {2, false, false, &M::type}},
      {"KEYS", {2, false, false, &M::names}},
      {"HSET", {4, kWrites, kGrows, &M::hset}},
      {"HSETNX", {4, kWrites, kGrows, &M::hsetnx}},
      {"HGET", {3, false, false, &M::hget}},
      {"HMGET", {3, false, false, &M::hmget}},
      {"HGETALL", {2, false, false, &M::hgetall}},
      {"HINCRBY", {4, kWrites, kGrows, &M::hincrby}},
      {"HDEL", {3, kWrites, false, &M::hdel}},
      {"SADD", {3, kWrites, kGrows, &M::sadd}},
      {"SREM", {3, kWrites, false, &M::srem}},
      {"SCARD", {2, false, false, &M::scard}},
      {"SISMEMBER", {3, false, false, &M::sismember}},
      {"SMEMBERS", {2, false, false, &M::smembers}},
      {"SRANDMEMBER", {3, false, false, &M::srandmember}},
      {"RPUSH", {3, kWrites, kGrows, &M::rpush}},
      {"LRANGE", {4, false, false, &M::lrange}},
      {"LTRIM", {4, kWrites, false, &M::ltrim}},
      {"ZADD", {4, kWrites, kGrows, &M::zadd}},
      {"ZREM", {3, kWrites, false, &M::zrem}},
      {"ZCARD", {2, false, false, &M::zcard}},
      {"ZSCORE", {3, false, false, &M::zscore}},
      {"ZCOUNT", {4, false, false, &M::zcount}},
      {"ZRANGE", {4, false, false, &M::zrange}},
      {"ZREVRANGE", {4, false, false, &M::zrevrange}},
      {"ZRANGEBYSCORE", {4, false, false, &M::zrangebyscore}},
      {"ZRANGEBYLEX", {4, false, false, &M::zrangebylex}},
      {"PUBLISH", {3, false, false, &M::publish_text}},
      {"XADD", {5, kWrites, kGrows, &M::xadd}},
      {"XREVRANGE", {4, false, false, &M::xrevrange}},
      {"XRANGE", {4, false, false, &M::xrange}},
      {"EVALSHA", {3, false, false, &M::evaluate}},
      {"EVAL", {3, false, false, &M::load}},
  };
  return table;
}

Answer RedisModel::run(const Command& command) {
  ++commands_;
  if (!trouble.authentication.empty()) return Answer::error(trouble.authentication);
  if (trouble.loading) return Answer::error("LOADING Redis is loading the dataset in memory");
  unit_.clear();
  auto answer = perform(command);
  commit();
  return answer;
}

Answer RedisModel::perform(const Command& command) {
  static const auto& known = handlers();
  std::string name = command.empty() ? "" : command.front();
  auto found = known.find(name);
  if (found == known.end()) {
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
    found = known.find(name);
  }
  if (found == known.end()) return Answer::error(fmt::format("ERR unknown command '{}'", name));
  const auto& handler = found->second;
  if (command.size() < handler.least)
    return Answer::error(fmt::format("ERR wrong number of arguments for '{}' command", name));
  if (handler.writes && !replaying_) {
    if (trouble.replica) return Answer::error("READONLY You can't write against a read only replica.");
    if (trouble.disk_error)
      return Answer::error("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist");
    if (handler.grows && trouble.full && !script_wrote_ && !allow_oom_)
      return Answer::error("OOM command not allowed when used memory > 'maxmemory'.");
  }
  try {
    auto answer = (this->*handler.run)(command);
    if (handler.writes && in_script_ && answer.kind != Answer::Kind::error) script_wrote_ = true;
    return answer;
  } catch (const Refusal& refusal) {
    return Answer::error(refusal.text);
  }
}

void RedisModel::commit() {
  if (!unit_.empty()) log_.push_back(std::move(unit_));
  unit_ = {};
}

void RedisModel::fsync() {
  if (log_.empty()) return;
  // The disk has the same commands in the same order, so that it is the same to copy what changed by replaying them.
  std::swap(data_, on_disk_);
  replaying_ = true;
  for (const auto& unit : log_) {
    for (const auto& command : unit) perform(command);
  }
  replaying_ = false;
  unit_.clear();
  log_.clear();
  std::swap(data_, on_disk_);
}

void RedisModel::crash(size_t kept) {
  kept = std::min(kept, log_.size());
  std::swap(data_, on_disk_);
  replaying_ = true;
  for (size_t i = 0; i < kept; ++i) {
    for (const auto& command : log_[i]) perform(command);
  }
  replaying_ = false;
  unit_.clear();
  log_.clear();
  on_disk_ = data_;
  scripts_.clear();
}

size_t RedisModel::bytes() const {
  size_t sum = 0;
  for (const auto& [key, value] : data_.keys) {
    sum += key.size() + 64;
    if (const auto* text = std::get_if<Text>(&value)) sum += text->size();
    if (const auto* hash = std::get_if<Hash>(&value))
      for (const auto& [field, content] : *hash) sum += field.size() + content.size() + 16;
    if (const auto* set = std::get_if<Set>(&value))
      for (const auto& member : *set) sum += member.size() + 16;
    if (const auto* list = std::get_if<List>(&value))
      for (const auto& element : *list) sum += element.size() + 8;
    if (const auto* sorted = std::get_if<SortedSet>(&value))
      for (const auto& entry : sorted->order()) sum += entry.second.size() + 32;
    if (const auto* stream = std::get_if<Stream>(&value))
      for (const auto& entry : stream->entries)
        for (const auto& field : entry.fields) sum += field.size() + 2;
  }
  return sum;
}

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

bool RedisModel::expired(const std::string& key) {
  const auto at = data_.expires_ms.find(key);
  return at != data_.expires_ms.end() && at->second <= now_ms();
}

template <class T>
T* RedisModel::find(const std::string& key) {
  const auto at = data_.keys.find(key);
  if (at == data_.keys.end()) return nullptr;
  if (!replaying_ && expired(key)) return nullptr;
  auto* value = std::get_if<T>(&at->second);
  if (value == nullptr) throw Refusal{kWrongType};
  return value;
}

template <class T>
T& RedisModel::make(const std::string& key) {
  if (auto* value = find<T>(key)) return *value;
  data_.expires_ms.erase(key);
  return std::get<T>(data_.keys[key] = T());
}

void RedisModel::drop_if_empty(const std::string& key) {
  const auto at = data_.keys.find(key);
  if (at == data_.keys.end()) return;
  const bool empty = std::visit(
      [](const auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, Stream>)
          return false;
        else
          return value.size() == 0 && !std::is_same_v<std::decay_t<decltype(value)>, Text>;
      },
      at->second);
  if (!empty) return;
  data_.keys.erase(at);
  data_.expires_ms.erase(key);
}

Answer RedisModel::ping(const Command&) { return {Answer::Kind::status, 0, "PONG", {}}; }
Answer RedisModel::client(const Command&) { return Answer::ok(); }
Answer RedisModel::select(const Command&) { return Answer::ok(); }

Answer RedisModel::info(const Command&) {
  return Answer::of(fmt::format("redis_version:7.0.15\r\nrole:{}\r\nused_memory:{}\r\nmaxmemory:0\r\n",
                                trouble.replica ? "slave" : "master", 1000000));
}

Answer RedisModel::config(const Command& command) {
  const std::map<std::string, std::string> settings = {
      {"maxmemory-policy", "noeviction"}, {"appendonly", "yes"}, {"appendfsync", "everysec"}};
  const auto found = settings.find(command[2]);
  if (found == settings.end()) return Answer::array();
  return Answer::array({Answer::of(found->first), Answer::of(found->second)});
}

Answer RedisModel::time(const Command&) {
  const auto now = now_us_();
  return Answer::array({Answer::of(std::to_string(now / 1000000)), Answer::of(std::to_string(now % 1000000))});
}

Answer RedisModel::get(const Command& c) {
  const auto* text = find<Text>(c[1]);
  return text != nullptr ? Answer::of(*text) : Answer{};
}

Answer RedisModel::set(const Command& c) {
  std::optional<int64_t> expires;
  for (size_t i = 3; i < c.size(); i += 2) {
    if (i + 1 >= c.size()) throw Refusal{"ERR syntax error"};
    if (same_word(c[i], "PX"))
      expires = now_ms() + integer_from(c[i + 1]);
    else if (same_word(c[i], "PXAT"))
      expires = integer_from(c[i + 1]);
    else
      throw Refusal{"ERR syntax error"};
  }
  data_.keys[c[1]] = c[2];
  data_.expires_ms.erase(c[1]);
  if (expires) data_.expires_ms[c[1]] = *expires;
  record(expires ? Command{"SET", c[1], c[2], "PXAT", std::to_string(*expires)} : Command{"SET", c[1], c[2]});
  return Answer::ok();
}

Answer RedisModel::persist(const Command& c) {
  if (!replaying_ && expired(c[1])) return Answer::of(0);
  const bool changed = data_.expires_ms.erase(c[1]) > 0;
  if (changed) record(c);
  return Answer::of(changed ? 1 : 0);
}

Answer RedisModel::incr(const Command& c) {
  const auto* before = find<Text>(c[1]);
  const int64_t value = (before == nullptr ? 0 : integer_from(*before)) + 1;
  make<Text>(c[1]) = std::to_string(value);
  record(c);
  return Answer::of(value);
}

Answer RedisModel::del(const Command& c) {
  int64_t deleted = 0;
  for (size_t i = 1; i < c.size(); ++i) {
    const bool visible = replaying_ || !expired(c[i]);
    deleted += data_.keys.erase(c[i]) > 0 && visible ? 1 : 0;
    data_.expires_ms.erase(c[i]);
  }
  if (deleted > 0) record(c);
  return Answer::of(deleted);
}

Answer RedisModel::exists(const Command& c) {
  int64_t there = 0;
  for (size_t i = 1; i < c.size(); ++i) there += data_.keys.count(c[i]) > 0 && !expired(c[i]) ? 1 : 0;
  return Answer::of(there);
}

Answer RedisModel::type(const Command& c) {
  const auto at = data_.keys.find(c[1]);
  if (at == data_.keys.end() || expired(c[1])) return {Answer::Kind::status, 0, "none", {}};
  constexpr std::array kNames = {"string", "hash", "set", "list", "zset", "stream"};
  return {Answer::Kind::status, 0, kNames[at->second.index()], {}};
}

/// The pattern is a prefix with a star.
Answer RedisModel::names(const Command& c) {
  const auto prefix = c[1].substr(0, c[1].find('*'));
  auto found = Answer::array();
  for (const auto& [key, value] : data_.keys) {
    if (key.starts_with(prefix) && !expired(key)) found.elements.push_back(Answer::of(key));
  }
  std::ranges::sort(found.elements, {}, &Answer::text);
  return found;
}

Answer RedisModel::hset(const Command& c) {
  if (c.size() % 2 != 0) throw Refusal{"ERR wrong number of arguments for 'hset' command"};
  auto& hash = make<Hash>(c[1]);
  int64_t added = 0;
  for (size_t i = 2; i < c.size(); i += 2) added += hash.insert_or_assign(c[i], c[i + 1]).second ? 1 : 0;
  record(c);
  return Answer::of(added);
}

Answer RedisModel::hsetnx(const Command& c) {
  auto& hash = make<Hash>(c[1]);
  const bool is_new = hash.emplace(c[2], c[3]).second;
  if (is_new) record(c);
  return Answer::of(is_new ? 1 : 0);
}

Answer RedisModel::hget(const Command& c) {
  const auto* hash = find<Hash>(c[1]);
  const auto at = hash != nullptr ? hash->find(c[2]) : Hash::const_iterator();
  return hash != nullptr && at != hash->end() ? Answer::of(at->second) : Answer{};
}

Answer RedisModel::hmget(const Command& c) {
  const auto* hash = find<Hash>(c[1]);
  auto values = Answer::array();
  for (size_t i = 2; i < c.size(); ++i) {
    const auto at = hash != nullptr ? hash->find(c[i]) : Hash::const_iterator();
    values.elements.push_back(hash != nullptr && at != hash->end() ? Answer::of(at->second) : Answer{});
  }
  return values;
}

Answer RedisModel::hgetall(const Command& c) {
  auto pairs = Answer::array();
  if (const auto* hash = find<Hash>(c[1])) {
    for (const auto& [field, value] : *hash) {
      pairs.elements.push_back(Answer::of(field));
      pairs.elements.push_back(Answer::of(value));
    }
  }
  return pairs;
}

Answer RedisModel::hincrby(const Command& c) {
  const auto by = integer_from(c[3]);
  const auto* hash = find<Hash>(c[1]);
  const bool there = hash != nullptr && hash->count(c[2]) != 0;
  int64_t value = 0;
  try {
    value = there ? integer_from(hash->at(c[2])) : 0;
  } catch (const Refusal&) {
    throw Refusal{"ERR hash value is not an integer"};
  }
  make<Hash>(c[1])[c[2]] = std::to_string(value + by);
  record(c);
  return Answer::of(value + by);
}

Answer RedisModel::hdel(const Command& c) {
  auto* hash = find<Hash>(c[1]);
  if (hash == nullptr) return Answer::of(0);
  int64_t deleted = 0;
  for (size_t i = 2; i < c.size(); ++i) deleted += static_cast<int64_t>(hash->erase(c[i]));
  drop_if_empty(c[1]);
  if (deleted > 0) record(c);
  return Answer::of(deleted);
}

Answer RedisModel::sadd(const Command& c) {
  auto& set = make<Set>(c[1]);
  int64_t added = 0;
  for (size_t i = 2; i < c.size(); ++i) added += set.insert(c[i]).second ? 1 : 0;
  if (added > 0) record(c);
  return Answer::of(added);
}

Answer RedisModel::srem(const Command& c) {
  auto* set = find<Set>(c[1]);
  if (set == nullptr) return Answer::of(0);
  int64_t removed = 0;
  for (size_t i = 2; i < c.size(); ++i) removed += static_cast<int64_t>(set->erase(c[i]));
  drop_if_empty(c[1]);
  if (removed > 0) record(c);
  return Answer::of(removed);
}

Answer RedisModel::scard(const Command& c) {
  const auto* set = find<Set>(c[1]);
  return Answer::of(static_cast<int64_t>(set != nullptr ? set->size() : 0));
}

Answer RedisModel::sismember(const Command& c) {
  const auto* set = find<Set>(c[1]);
  return Answer::of(set != nullptr && set->count(c[2]) > 0 ? 1 : 0);
}

Answer RedisModel::smembers(const Command& c) {
  auto members = Answer::array();
  if (const auto* set = find<Set>(c[1])) {
    for (const auto& member : *set) members.elements.push_back(Answer::of(member));
  }
  return members;
}

/// The first ones: whoever asks must be content with any.
Answer RedisModel::srandmember(const Command& c) {
  auto members = smembers(c);
  const auto count = static_cast<size_t>(std::max<int64_t>(0, integer_from(c[2])));
  if (members.elements.size() > count) members.elements.resize(count);
  return members;
}

Answer RedisModel::rpush(const Command& c) {
  auto& list = make<List>(c[1]);
  list.insert(list.end(), c.begin() + 2, c.end());
  record(c);
  return Answer::of(static_cast<int64_t>(list.size()));
}

Answer RedisModel::lrange(const Command& c) {
  auto elements = Answer::array();
  if (const auto* list = find<List>(c[1])) {
    const auto [begin, end] = range_of(c[2], c[3], static_cast<int64_t>(list->size()));
    for (int64_t i = begin; i <= end; ++i) elements.elements.push_back(Answer::of((*list)[static_cast<size_t>(i)]));
  }
  return elements;
}

Answer RedisModel::ltrim(const Command& c) {
  if (auto* list = find<List>(c[1])) {
    const auto [begin, end] = range_of(c[2], c[3], static_cast<int64_t>(list->size()));
    if (begin > end) {
      list->clear();
    } else {
      list->erase(list->begin() + end + 1, list->end());
      list->erase(list->begin(), list->begin() + begin);
    }
    drop_if_empty(c[1]);
    record(c);
  }
  return Answer::ok();
}

Answer RedisModel::zadd(const Command& c) {
  const bool only_new = same_word(c[2], "NX");
  size_t at = only_new ? 3 : 2;
  if ((c.size() - at) % 2 != 0 || at == c.size()) throw Refusal{"ERR syntax error"};
  for (size_t i = at; i < c.size(); i += 2) number_from(c[i]);
  auto& sorted = make<SortedSet>(c[1]);
  int64_t added = 0;
  for (; at < c.size(); at += 2) {
    if (only_new && sorted.score(c[at + 1])) continue;
    added += sorted.set(c[at + 1], number_from(c[at])) ? 1 : 0;
  }
  record(c);
  return Answer::of(added);
}

Answer RedisModel::zrem(const Command& c) {
  auto* sorted = find<SortedSet>(c[1]);
  if (sorted == nullptr) return Answer::of(0);
  int64_t removed = 0;
  for (size_t i = 2; i < c.size(); ++i) removed += sorted->erase(c[i]) ? 1 : 0;
  drop_if_empty(c[1]);
  if (removed > 0) record(c);
  return Answer::of(removed);
}

Answer RedisModel::zcard(const Command& c) {
  const auto* sorted = find<SortedSet>(c[1]);
  return Answer::of(static_cast<int64_t>(sorted != nullptr ? sorted->size() : 0));
}

Answer RedisModel::zscore(const Command& c) {
  const auto* sorted = find<SortedSet>(c[1]);
  const auto score = sorted != nullptr ? sorted->score(c[2]) : std::nullopt;
  return score ? Answer::of(score_text(*score)) : Answer{};
}

Answer RedisModel::zcount(const Command& c) {
  const Bound least(c[2]), most(c[3]);
  int64_t count = 0;
  if (const auto* sorted = find<SortedSet>(c[1])) {
    for (auto at = sorted->order().lower_bound({least.value, ""}); at != sorted->order().end(); ++at) {
      if (!most.above(at->first)) break;
      count += least.below(at->first) ? 1 : 0;
    }
  }
  return Answer::of(count);
}

Answer RedisModel::zrange(const Command& c) { return ranked(c, false); }
Answer RedisModel::zrevrange(const Command& c) { return ranked(c, true); }

Answer RedisModel::ranked(const Command& c, bool descending) {
  const bool scores = c.size() > 4;
  if (c.size() > 5 || (scores && !same_word(c[4], "WITHSCORES"))) throw Refusal{"ERR syntax error"};
  auto found = Answer::array();
  const auto* sorted = find<SortedSet>(c[1]);
  const auto size = sorted == nullptr ? 0 : static_cast<int64_t>(sorted->size());
  const auto [begin, end] = range_of(c[2], c[3], size);
  if (begin > end) return found;
  auto at = std::next(sorted->order().begin(), descending ? size - 1 - begin : begin);
  for (int64_t i = begin; i <= end; ++i) {
    found.elements.push_back(Answer::of(at->second));
    if (scores) found.elements.push_back(Answer::of(score_text(at->first)));
    if (i < end) descending ? --at : ++at;
  }
  return found;
}

Answer RedisModel::zrangebyscore(const Command& c) {
  const Bound least(c[2]), most(c[3]);
  bool scores = false;
  int64_t offset = 0, limit = -1;
  for (size_t i = 4; i < c.size(); ++i) {
    if (same_word(c[i], "WITHSCORES")) {
      scores = true;
    } else if (same_word(c[i], "LIMIT") && i + 2 < c.size()) {
      offset = integer_from(c[i + 1]);
      limit = integer_from(c[i + 2]);
      i += 2;
    } else {
      throw Refusal{"ERR syntax error"};
    }
  }
  auto found = Answer::array();
  if (const auto* sorted = find<SortedSet>(c[1])) {
    for (auto at = sorted->order().lower_bound({least.value, ""}); at != sorted->order().end() && limit != 0; ++at) {
      if (!most.above(at->first)) break;
      if (!least.below(at->first) || offset-- > 0) continue;
      found.elements.push_back(Answer::of(at->second));
      if (scores) found.elements.push_back(Answer::of(score_text(at->first)));
      --limit;
    }
  }
  return found;
}

Answer RedisModel::zrangebylex(const Command& c) {
  const auto is_within = [&](const std::string& member) {
    const auto least = c[2].substr(1), most = c[3].substr(1);
    const bool above = c[2] == "-" || (c[2][0] == '[' ? member >= least : member > least);
    return above && (c[3] == "+" || (c[3][0] == '[' ? member <= most : member < most));
  };
  auto limit = c.size() > 6 ? integer_from(c[6]) : -1;
  auto found = Answer::array();
  if (const auto* sorted = find<SortedSet>(c[1])) {
    for (const auto& [score, member] : sorted->order()) {
      if (limit == 0) break;
      if (!is_within(member)) continue;
      found.elements.push_back(Answer::of(member));
      --limit;
    }
  }
  return found;
}

Answer RedisModel::publish_text(const Command& c) { return Answer::of(publish ? publish(c[1], c[2]) : 0); }

Answer RedisModel::xadd(const Command& c) {
  size_t at = 2;
  std::optional<size_t> most;
  if (same_word(c[at], "MAXLEN")) {
    const bool about = c[at + 1] == "~";
    most = static_cast<size_t>(integer_from(c[at + (about ? 2 : 1)]));
    // Redis trims whole nodes of 100 entries.
    if (about) *most += 100;
    at += about ? 3 : 2;
  }
  auto& stream = make<Stream>(c[1]);
  StreamEntry entry;
  if (c[at] == "*") {
    entry.milliseconds = std::max(now_ms(), stream.last_milliseconds);
    entry.sequence = entry.milliseconds == stream.last_milliseconds ? stream.last_sequence + 1 : 0;
  } else {
    const auto dash = c[at].find('-');
    entry.milliseconds = integer_from(c[at].substr(0, dash));
    entry.sequence = integer_from(c[at].substr(dash + 1));
  }
  entry.fields.assign(c.begin() + static_cast<std::ptrdiff_t>(at) + 1, c.end());
  stream.last_milliseconds = entry.milliseconds;
  stream.last_sequence = entry.sequence;
  const auto id = fmt::format("{}-{}", entry.milliseconds, entry.sequence);
  stream.entries.push_back(std::move(entry));
  while (most && stream.entries.size() > *most) stream.entries.pop_front();
  auto recorded = c;
  recorded[at] = id;
  record(std::move(recorded));
  return Answer::of(id);
}

Answer RedisModel::xrange(const Command& c) {
  auto found = xrevrange({"XREVRANGE", c[1], c[3], c[2]});
  std::reverse(found.elements.begin(), found.elements.end());
  return found;
}

Answer RedisModel::xrevrange(const Command& c) {
  const auto bound = [](const std::string& text, bool upper) -> std::tuple<bool, int64_t, int64_t> {
    const bool open = text[0] == '(';
    const auto body = text.substr(open ? 1 : 0);
    if (body == "+") return {false, INT64_MAX, INT64_MAX};
    if (body == "-") return {false, 0, 0};
    const auto dash = body.find('-');
    return {open, integer_from(body.substr(0, dash)),
            dash == std::string::npos ? (upper ? INT64_MAX : 0) : integer_from(body.substr(dash + 1))};
  };
  const auto [open_end, end_ms, end_sequence] = bound(c[2], true);
  const auto [open_begin, begin_ms, begin_sequence] = bound(c[3], false);
  auto limit = c.size() > 5 ? integer_from(c[5]) : -1;
  auto found = Answer::array();
  if (const auto* stream = find<Stream>(c[1])) {
    for (auto at = stream->entries.rbegin(); at != stream->entries.rend() && limit != 0; ++at) {
      const std::pair id{at->milliseconds, at->sequence}, last{end_ms, end_sequence}, first{begin_ms, begin_sequence};
      if (id > last || (open_end && id == last)) continue;
      if (id < first || (open_begin && id == first)) break;
      auto fields = Answer::array();
      for (const auto& field : at->fields) fields.elements.push_back(Answer::of(field));
      found.elements.push_back(
          Answer::array({Answer::of(fmt::format("{}-{}", at->milliseconds, at->sequence)), std::move(fields)}));
      --limit;
    }
  }
  return found;
}

}  // namespace foretime::simulation
