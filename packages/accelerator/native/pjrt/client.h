#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "plugin.h"

namespace dlrm::pjrt {

using CreateOption = std::variant<std::string, int64_t, float, bool>;
using Dimensions = std::vector<int64_t>;

/** Where a client comes from: clients of equal settings are one, for a chip has one owner in a process. */
struct ClientSettings {
  std::string plugin_path;
  std::map<std::string, CreateOption> options;
  /** Variables of the process that the plugin reads while it creates the client. */
  std::map<std::string, std::string> environment;
};

/** Bytes of a device's memory; -1 for what the plugin does not tell. */
struct MemoryDescription {
  int64_t used_bytes = -1;
  int64_t limit_bytes = -1;
};

/** A plugin's devices. Freed with its last user. */
class Client {
 public:
  static std::shared_ptr<Client> Open(const ClientSettings& settings);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Plugin& plugin() const { return plugin_; }
  const PJRT_Api& api() const { return plugin_.api(); }
  PJRT_Client* get() const { return client_; }
  std::string PlatformName() const;
  std::string PlatformVersion() const;
  /** Devices of this process. */
  const std::vector<PJRT_Device*>& devices() const { return devices_; }
  std::string KindOf(PJRT_Device* device) const;
  MemoryDescription MemoryOf(PJRT_Device* device) const;

 private:
  Client(const Plugin& plugin, PJRT_Client* client);

  const Plugin& plugin_;
  PJRT_Client* client_;
  std::vector<PJRT_Device*> devices_;
};

/** Numbers in the memory of a device. */
class DeviceBuffer {
 public:
  /** Copies `data`, which is the caller's again when this returns. */
  static std::shared_ptr<DeviceBuffer> Upload(std::shared_ptr<Client> client, PJRT_Device* device, const void* data,
                                              PJRT_Buffer_Type type, const Dimensions& dimensions);
  DeviceBuffer(std::shared_ptr<Client> client, PJRT_Buffer* buffer);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  PJRT_Buffer* get() const { return buffer_; }

 private:
  std::shared_ptr<Client> client_;
  PJRT_Buffer* buffer_;
};

}  // namespace dlrm::pjrt
