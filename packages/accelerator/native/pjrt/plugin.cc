#include "plugin.h"

#include "live-objects.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

namespace dlrm::pjrt {
namespace {

const char* CodeName(PJRT_Error_Code code) {
  switch (code) {
    case PJRT_Error_Code_CANCELLED: return "cancelled";
    case PJRT_Error_Code_INVALID_ARGUMENT: return "invalid_argument";
    case PJRT_Error_Code_DEADLINE_EXCEEDED: return "deadline_exceeded";
    case PJRT_Error_Code_NOT_FOUND: return "not_found";
    case PJRT_Error_Code_ALREADY_EXISTS: return "already_exists";
    case PJRT_Error_Code_PERMISSION_DENIED: return "permission_denied";
    case PJRT_Error_Code_RESOURCE_EXHAUSTED: return "resource_exhausted";
    case PJRT_Error_Code_FAILED_PRECONDITION: return "failed_precondition";
    case PJRT_Error_Code_ABORTED: return "aborted";
    case PJRT_Error_Code_OUT_OF_RANGE: return "out_of_range";
    case PJRT_Error_Code_UNIMPLEMENTED: return "unimplemented";
    case PJRT_Error_Code_INTERNAL: return "internal";
    case PJRT_Error_Code_UNAVAILABLE: return "unavailable";
    case PJRT_Error_Code_DATA_LOSS: return "data_loss";
    case PJRT_Error_Code_UNAUTHENTICATED: return "unauthenticated";
    default: return "unknown";
  }
}

/** The table of functions, once it is known to hold all that are used here. */
const PJRT_Api* FindApi(const std::string& path) {
  struct stat file {};
  if (stat(path.c_str(), &file) != 0) throw Failure("plugin_not_found", "no file " + path);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Failure("plugin_invalid", dlerror());
  auto get_api = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
  if (get_api == nullptr) throw Failure("plugin_invalid", path + " exports no GetPjrtApi: it is no PJRT plugin");
  const PJRT_Api* api = get_api();
  if (api == nullptr) throw Failure("plugin_invalid", path + ": GetPjrtApi returned nothing");
  const int major = api->pjrt_api_version.major_version;
  const int minor = api->pjrt_api_version.minor_version;
  if (major != PJRT_API_MAJOR || minor < kOldestMinor) {
    throw Failure("plugin_invalid", path + " has version " + std::to_string(major) + "." + std::to_string(minor) +
                                        " of the PJRT API; " + std::to_string(PJRT_API_MAJOR) + "." +
                                        std::to_string(kOldestMinor) + " or a later minor version is needed");
  }
  // The last function used here; later ones are never touched.
  static_assert(offsetof(PJRT_Api, PJRT_Device_MemoryStats) < offsetof(PJRT_Api, PJRT_Executable_OutputDimensions));
  constexpr size_t kNeededBytes = PJRT_STRUCT_SIZE(PJRT_Api, PJRT_Executable_OutputDimensions);
  if (api->struct_size < kNeededBytes) {
    throw Failure("plugin_invalid", path + " has a table of functions of " + std::to_string(api->struct_size) +
                                        " bytes; " + std::to_string(kNeededBytes) + " are needed");
  }
  return api;
}

std::string TextOf(const PJRT_NamedValue& value) {
  switch (value.type) {
    case PJRT_NamedValue_kString: return std::string(value.string_value, value.value_size);
    case PJRT_NamedValue_kInt64: return std::to_string(value.int64_value);
    case PJRT_NamedValue_kInt64List: {
      std::string text;
      for (size_t i = 0; i < value.value_size; i++) {
        text += (i == 0 ? "" : ".") + std::to_string(value.int64_array_value[i]);
      }
      return text;
    }
    case PJRT_NamedValue_kFloat: return std::to_string(value.float_value);
    case PJRT_NamedValue_kBool: return value.bool_value ? "true" : "false";
  }
  return "";
}

}  // namespace

const Plugin& Plugin::Load(const std::string& path) {
  // Never destroyed: plugins outlive static destruction.
  static auto& mutex = *new std::mutex;
  static auto& loaded = *new std::map<std::string, std::unique_ptr<Plugin>>;
  std::lock_guard lock(mutex);
  auto& plugin = loaded[path];
  if (plugin == nullptr) {
    std::unique_ptr<Plugin> fresh(new Plugin(path, FindApi(path)));
    PJRT_ARGS(PJRT_Plugin_Initialize_Args, args);
    fresh->Check(fresh->api_->PJRT_Plugin_Initialize(&args), "the plugin's initialization failed");
    plugin = std::move(fresh);
  }
  return *plugin;
}

std::vector<std::pair<std::string, std::string>> Plugin::Attributes() const {
  PJRT_ARGS(PJRT_Plugin_Attributes_Args, args);
  Check(api_->PJRT_Plugin_Attributes(&args), "the plugin has no attributes");
  std::vector<std::pair<std::string, std::string>> attributes;
  for (size_t i = 0; i < args.num_attributes; i++) {
    const PJRT_NamedValue& value = args.attributes[i];
    attributes.emplace_back(std::string(value.name, value.name_size), TextOf(value));
  }
  return attributes;
}

void Plugin::Check(PJRT_Error* error, const char* doing) const {
  if (error == nullptr) return;
  PJRT_ARGS(PJRT_Error_Message_Args, message);
  message.error = error;
  api_->PJRT_Error_Message(&message);
  std::string text = std::string(doing) + ": " + std::string(message.message, message.message_size);
  PJRT_ARGS(PJRT_Error_GetCode_Args, code);
  code.error = error;
  PJRT_Error* no_code = api_->PJRT_Error_GetCode(&code);
  std::string name = no_code == nullptr ? CodeName(code.code) : "unknown";
  for (PJRT_Error* taken : {no_code, error}) {
    if (taken == nullptr) continue;
    PJRT_ARGS(PJRT_Error_Destroy_Args, destroy);
    destroy.error = taken;
    api_->PJRT_Error_Destroy(&destroy);
  }
  throw Failure(name, text);
}

void Plugin::Await(PJRT_Event* event, const char* doing) const {
  if (event == nullptr) return;
  PJRT_ARGS(PJRT_Event_Await_Args, await);
  await.event = event;
  PJRT_Error* error = api_->PJRT_Event_Await(&await);
  PJRT_ARGS(PJRT_Event_Destroy_Args, destroy);
  destroy.event = event;
  PJRT_Error* ignored = api_->PJRT_Event_Destroy(&destroy);
  Live().events -= 1;
  if (ignored != nullptr && error == nullptr) error = ignored;
  Check(error, doing);
}

}  // namespace dlrm::pjrt
