#include "configs/yaml_document.h"

#include <sstream>

#include <yaml-cpp/eventhandler.h>

namespace foretime::configs {
namespace {

/// Sees whether a document holds anything.
class Glance : public YAML::EventHandler {
 public:
  bool empty() const { return empty_; }

  void OnDocumentStart(const YAML::Mark&) override { empty_ = true; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override { empty_ = false; }
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override { empty_ = false; }
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    empty_ = false;
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    empty_ = false;
  }
  void OnMapEnd() override {}

 private:
  bool empty_ = true;
};

}  // namespace

std::optional<YAML::Node> only_document(const std::string& yaml) {
  std::istringstream stream(yaml);
  YAML::Parser parser(stream);
  Glance glance;
  if (!parser.HandleNextDocument(glance) || glance.empty()) return YAML::Node();
  if (parser.HandleNextDocument(glance) && !glance.empty()) return std::nullopt;
  return YAML::Load(yaml);
}

}  // namespace foretime::configs
