#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/parsing/commands.h"
#include "cli/parsing/options.h"
#include "configs/fields.h"
#include "configs/settings.h"

namespace foretime::cli {
namespace {

/// A subcommand with what may follow it.
struct Completions {
  std::string path;  // "data pack"; "" is the program itself
  std::vector<std::string> words;
  bool overrides = false;  // takes key=value of settings
};

void collect(const CLI::App& app, const std::string& path, std::vector<Completions>& found) {
  Completions own{.path = path, .words = {}};
  const auto subcommands = app.get_subcommands([](const CLI::App*) { return true; });
  for (const auto* subcommand : subcommands) own.words.push_back(subcommand->get_name());
  for (const auto* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) own.words.push_back("--" + name);
    own.overrides = own.overrides || option->get_name() == "overrides";
  }
  found.push_back(own);
  for (const auto* subcommand : subcommands)
    collect(*subcommand, path + (path.empty() ? "" : " ") + subcommand->get_name(), found);
}

/// Runs in bash, where = splits words, and in zsh, where it does not.
constexpr const char* kBashFunction = R"bash(_foretime() {
  local cur="${COMP_WORDS[COMP_CWORD]}" key= prefix= path= word i
  if [ "$cur" = "=" ]; then
    key="${COMP_WORDS[COMP_CWORD-1]}" cur=
  elif [ "${COMP_WORDS[COMP_CWORD-1]}" = "=" ]; then
    key="${COMP_WORDS[COMP_CWORD-2]}"
  else
    case "$cur" in ?*=*) key="${cur%%=*}" prefix="$key=" cur="${cur#*=}" ;; esac
  fi
  if [ -n "$key" ]; then
    COMPREPLY=($(compgen -P "$prefix" -W "$(_foretime_values "$key")" -- "$cur"))
    return
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="${COMP_WORDS[i]}"
    case "$word" in -*) continue ;; esac
    case " $(_foretime_words "$path") " in *" $word "*) path="${path:+$path }$word" ;; esac
  done
  COMPREPLY=($(compgen -W "$(_foretime_words "$path")" -- "$cur"))
  case "${COMPREPLY[0]}" in *=) compopt -o nospace 2>/dev/null ;; esac
}
complete -o default -F _foretime foretime
)bash";

std::string bash_script(const std::vector<Completions>& commands, const configs::FieldList& list) {
  std::string keys, script = "_foretime_words() {\n  case \"$1\" in\n";
  for (const auto& field : list.fields) keys += " " + field.key + "=";
  for (const auto& [path, words, overrides] : commands)
    script += fmt::format("    \"{}\") echo \"{}{}\" ;;\n", path, fmt::join(words, " "), overrides ? keys : "");
  script += "  esac\n}\n_foretime_values() {\n  case \"$1\" in\n";
  for (const auto& field : list.fields) {
    const auto words = std::holds_alternative<bool*>(field.value) ? std::vector<std::string>{"true", "false"}
                                                                  : configs::split_words(field.words());
    if (!words.empty()) script += fmt::format("    {}) echo \"{}\" ;;\n", field.key, fmt::join(words, " "));
  }
  return script + "  esac\n}\n" + kBashFunction;
}

std::string fish_script(const std::vector<Completions>& commands, const configs::FieldList& list) {
  std::string script;
  for (const auto& [path, words, overrides] : commands) {
    // All words of the path have been typed, and of a command with subcommands none of these.
    std::string condition;
    for (size_t start = 0; start < path.size();) {
      const size_t end = std::min(path.find(' ', start), path.size());
      condition +=
          fmt::format("{}__fish_seen_subcommand_from {}", start == 0 ? "" : "; and ", path.substr(start, end - start));
      start = end + 1;
    }
    if (path.empty()) condition = "__fish_use_subcommand";
    for (const auto& word : words) {
      const bool option = word.starts_with("--");
      script += fmt::format("complete -c foretime -n '{}' {} {}\n", condition, option ? "-l" : "-a",
                            option ? word.substr(2) : word);
    }
    for (const auto& field : list.fields) {
      if (!overrides) break;
      const auto values = configs::split_words(field.words());
      script += fmt::format("complete -c foretime -n '{}' -a '{}={}'\n", condition, field.key,
                            fmt::join(values, " " + field.key + "="));
    }
  }
  return script;
}

}  // namespace

void add_completion_command(CLI::App& app) {
  auto* command = app.add_subcommand("completion", "Print a completion script for a shell");
  const auto shell = std::make_shared<std::string>();
  checked_option(*command, "shell", *shell, "bash, zsh or fish", CLI::IsMember({"bash", "zsh", "fish"}), "SHELL")
      ->required();
  command->callback([&app, shell] {
    std::vector<Completions> commands;
    collect(app, "", commands);
    configs::Settings settings;
    const auto list = configs::list_fields(settings);
    if (*shell == "zsh") fmt::print("autoload -U +X compinit bashcompinit && compinit && bashcompinit\n");
    fmt::print("{}", *shell == "fish" ? fish_script(commands, list) : bash_script(commands, list));
  });
}

}  // namespace foretime::cli
