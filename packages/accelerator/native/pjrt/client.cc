#include "client.h"

#include "live-objects.h"

#include <cstdlib>
#include <mutex>
#include <optional>

namespace dlrm::pjrt {
namespace {

/** Sets variables of the process, and puts back what they were. */
class ScopedEnvironment {
 public:
  explicit ScopedEnvironment(const std::map<std::string, std::string>& variables) {
    for (const auto& [name, value] : variables) {
      const char* before = std::getenv(name.c_str());
      before_.emplace(name, before == nullptr ? std::nullopt : std::optional<std::string>(before));
      setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ~ScopedEnvironment() {
    for (const auto& [name, value] : before_) {
      if (value.has_value()) {
        setenv(name.c_str(), value->c_str(), 1);
      } else {
        unsetenv(name.c_str());
      }
    }
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

std::vector<PJRT_NamedValue> NamedValues(const std::map<std::string, CreateOption>& options) {
  std::vector<PJRT_NamedValue> values;
  for (const auto& [name, option] : options) {
    PJRT_ARGS(PJRT_NamedValue, value);
    value.name = name.c_str();
    value.name_size = name.size();
    value.value_size = 1;
    if (const auto* text = std::get_if<std::string>(&option)) {
      value.type = PJRT_NamedValue_kString;
      value.string_value = text->c_str();
      value.value_size = text->size();
    } else if (const auto* integer = std::get_if<int64_t>(&option)) {
      value.type = PJRT_NamedValue_kInt64;
      value.int64_value = *integer;
    } else if (const auto* number = std::get_if<float>(&option)) {
      value.type = PJRT_NamedValue_kFloat;
      value.float_value = *number;
    } else {
      value.type = PJRT_NamedValue_kBool;
      value.bool_value = std::get<bool>(option);
    }
    values.push_back(value);
  }
  return values;
}

}  // namespace

std::shared_ptr<Client> Client::Open(const ClientSettings& settings) {
  using Key = std::tuple<std::string, std::map<std::string, CreateOption>, std::map<std::string, std::string>>;
  static auto& mutex = *new std::mutex;
  static auto& open = *new std::map<Key, std::weak_ptr<Client>>;
  // Held throughout: two threads that want the same client must not both create it, nor meet in the environment.
  std::lock_guard lock(mutex);
  std::weak_ptr<Client>& known = open[Key(settings.plugin_path, settings.options, settings.environment)];
  if (std::shared_ptr<Client> shared = known.lock()) return shared;

  ScopedEnvironment environment(settings.environment);
  const Plugin& plugin = Plugin::Load(settings.plugin_path);
  const std::vector<PJRT_NamedValue> options = NamedValues(settings.options);
  PJRT_ARGS(PJRT_Client_Create_Args, args);
  args.create_options = options.data();
  args.num_options = options.size();
  plugin.Check(plugin.api().PJRT_Client_Create(&args), "the plugin has no device");
  std::shared_ptr<Client> client(new Client(plugin, args.client));
  PJRT_ARGS(PJRT_Client_AddressableDevices_Args, devices);
  devices.client = args.client;
  plugin.Check(plugin.api().PJRT_Client_AddressableDevices(&devices), "the plugin's devices can't be listed");
  client->devices_.assign(devices.addressable_devices,
                          devices.addressable_devices + devices.num_addressable_devices);
  if (client->devices_.empty()) throw Failure("not_found", "the plugin has no device");
  known = client;
  return client;
}

Client::Client(const Plugin& plugin, PJRT_Client* client) : plugin_(plugin), client_(client) { Live().clients += 1; }

Client::~Client() {
  Live().clients -= 1;
  PJRT_ARGS(PJRT_Client_Destroy_Args, args);
  args.client = client_;
  try {
    plugin_.Check(api().PJRT_Client_Destroy(&args), "the client can't be closed");
  } catch (const Failure&) {
    // Nobody is left to be told.
  }
}

std::string Client::PlatformName() const {
  PJRT_ARGS(PJRT_Client_PlatformName_Args, args);
  args.client = client_;
  plugin_.Check(api().PJRT_Client_PlatformName(&args), "the platform has no name");
  return std::string(args.platform_name, args.platform_name_size);
}

std::string Client::PlatformVersion() const {
  PJRT_ARGS(PJRT_Client_PlatformVersion_Args, args);
  args.client = client_;
  plugin_.Check(api().PJRT_Client_PlatformVersion(&args), "the platform has no version");
  return std::string(args.platform_version, args.platform_version_size);
}

std::string Client::KindOf(PJRT_Device* device) const {
  PJRT_ARGS(PJRT_Device_GetDescription_Args, description);
  description.device = device;
  plugin_.Check(api().PJRT_Device_GetDescription(&description), "the device has no description");
  PJRT_ARGS(PJRT_DeviceDescription_Kind_Args, kind);
  kind.device_description = description.device_description;
  plugin_.Check(api().PJRT_DeviceDescription_Kind(&kind), "the device has no kind");
  return std::string(kind.device_kind, kind.device_kind_size);
}

MemoryDescription Client::MemoryOf(PJRT_Device* device) const {
  PJRT_ARGS(PJRT_Device_MemoryStats_Args, args);
  args.device = device;
  try {
    plugin_.Check(api().PJRT_Device_MemoryStats(&args), "the device has no statistics of its memory");
  } catch (const Failure&) {
    return {};
  }
  return {args.bytes_in_use, args.bytes_limit_is_set ? args.bytes_limit : -1};
}

std::shared_ptr<DeviceBuffer> DeviceBuffer::Upload(std::shared_ptr<Client> client, PJRT_Device* device,
                                                   const void* data, PJRT_Buffer_Type type,
                                                   const Dimensions& dimensions) {
  PJRT_ARGS(PJRT_Client_BufferFromHostBuffer_Args, args);
  args.client = client->get();
  args.data = data;
  args.type = type;
  args.dims = dimensions.data();
  args.num_dims = dimensions.size();
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  args.device = device;
  client->plugin().Check(client->api().PJRT_Client_BufferFromHostBuffer(&args), "a weight can't be put on the device");
  auto buffer = std::make_shared<DeviceBuffer>(client, args.buffer);
  if (args.done_with_host_buffer != nullptr) Live().events += 1;
  client->plugin().Await(args.done_with_host_buffer, "a weight can't be put on the device");
  // Without this an error of the transfer would only show in the first call.
  PJRT_ARGS(PJRT_Buffer_ReadyEvent_Args, ready);
  ready.buffer = args.buffer;
  client->plugin().Check(client->api().PJRT_Buffer_ReadyEvent(&ready), "a weight can't be put on the device");
  if (ready.event != nullptr) Live().events += 1;
  client->plugin().Await(ready.event, "a weight can't be put on the device");
  return buffer;
}

DeviceBuffer::DeviceBuffer(std::shared_ptr<Client> client, PJRT_Buffer* buffer)
    : client_(std::move(client)), buffer_(buffer) {
  Live().buffers += 1;
}

DeviceBuffer::~DeviceBuffer() {
  Live().buffers -= 1;
  PJRT_ARGS(PJRT_Buffer_Destroy_Args, args);
  args.buffer = buffer_;
  try {
    client_->plugin().Check(client_->api().PJRT_Buffer_Destroy(&args), "a buffer can't be freed");
  } catch (const Failure&) {
    // Nobody is left to be told.
  }
}

}  // namespace dlrm::pjrt
