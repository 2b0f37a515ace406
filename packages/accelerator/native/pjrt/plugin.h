#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "pjrt_c_api.h"

/** An argument struct of the C API, zeroed but for its size. */
#define PJRT_ARGS(type, name) \
  type name{};                \
  name.struct_size = type##_STRUCT_SIZE

namespace dlrm::pjrt {

/** What failed, with a code for programs: one of the binding's, or PJRT's own in lower case (`resource_exhausted`). */
class Failure : public std::runtime_error {
 public:
  Failure(std::string code, const std::string& message) : std::runtime_error(message), code_(std::move(code)) {}
  const std::string& code() const { return code_; }

 private:
  std::string code_;
};

/** The oldest minor version (of major 0) whose functions are all used here. */
inline constexpr int kOldestMinor = 81;

/** A plugin's library. It stays loaded until the process ends: none can be unloaded safely. */
class Plugin {
 public:
  /** Loads and initializes a plugin, once in a process. Throws `plugin_not_found` or `plugin_invalid`, or what the plugin says. */
  static const Plugin& Load(const std::string& path);

  const PJRT_Api& api() const { return *api_; }
  const std::string& path() const { return path_; }
  int minor() const { return api_->pjrt_api_version.minor_version; }
  /** Names and values, for people. */
  std::vector<std::pair<std::string, std::string>> Attributes() const;

  /** Throws the plugin's error, which it takes. */
  void Check(PJRT_Error* error, const char* doing) const;
  /** Waits for an event and destroys it. Throws the event's error; null is no event. */
  void Await(PJRT_Event* event, const char* doing) const;

 private:
  Plugin(std::string path, const PJRT_Api* api) : path_(std::move(path)), api_(api) {}

  std::string path_;
  const PJRT_Api* api_;
};

}  // namespace dlrm::pjrt
