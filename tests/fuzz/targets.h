#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

/// What libforetime reads from outside, through its C interface. Each target takes any bytes, must return, and may not
/// touch memory that is not its own; calls that fail must leave a message.
namespace foretime::fuzz {

void run_bundle(std::string_view bytes);
/// A sample's bundle, chosen by the first byte, whose form is the JSON text behind a digit, or edited as the bytes
/// behind another one say (form_edits.h): what gets past its checks is run.
void run_form(std::string_view text);
void run_tir(std::string_view text);
/// A line with a stage table (empty: a sample's), then lines with records.
void run_records(std::string_view text);
void run_hlo(std::string_view bytes);

using Target = void (*)(std::string_view);
const std::map<std::string, Target>& targets();  // bundle, form, tir, records, hlo

/// What to start from, by target: small samples of each kind.
std::vector<std::string> seeds(const std::string& target);

}  // namespace foretime::fuzz
