#include "binding-functions.h"
#include "napi-handles.h"

namespace dlrm::pjrt {
namespace {

/** BigInts and whole numbers are int64; other numbers, float; strings; booleans. */
CreateOption ToCreateOption(napi_env env, napi_value value) {
  napi_valuetype type;
  Ok(env, napi_typeof(env, value, &type));
  if (type == napi_boolean) {
    bool on = false;
    Ok(env, napi_get_value_bool(env, value, &on));
    return on;
  }
  if (type == napi_bigint) {
    int64_t integer = 0;
    bool lossless = false;
    Ok(env, napi_get_value_bigint_int64(env, value, &integer, &lossless));
    return integer;
  }
  if (type == napi_number) {
    double number = 0;
    Ok(env, napi_get_value_double(env, value, &number));
    const auto integer = static_cast<int64_t>(number);
    if (static_cast<double>(integer) == number) return integer;
    return static_cast<float>(number);
  }
  return ToText(env, value);
}

}  // namespace

napi_value OpenClient(napi_env env, napi_callback_info info) {
  return Guarded(env, [&] {
    const Arguments arguments(env, info);
    ClientSettings settings;
    settings.plugin_path = ToText(env, arguments[0]);
    for (const auto& [name, value] : Entries(env, arguments[1])) {
      settings.options.emplace(name, ToCreateOption(env, value));
    }
    for (const auto& [name, value] : Entries(env, arguments[2])) {
      settings.environment.emplace(name, ToText(env, value));
    }
    return FromHandle(env, Client::Open(settings));
  });
}

napi_value DescribeClient(napi_env env, napi_callback_info info) {
  return Guarded(env, [&] {
    const Arguments arguments(env, info);
    const auto client = ToHandle<Client>(env, arguments[0]);
    napi_value description = nullptr;
    Ok(env, napi_create_object(env, &description));
    const std::string version = std::to_string(PJRT_API_MAJOR) + "." + std::to_string(client->plugin().minor());
    Set(env, description, "apiVersion", FromText(env, version));
    Set(env, description, "platformName", FromText(env, client->PlatformName()));
    Set(env, description, "platformVersion", FromText(env, client->PlatformVersion()));
    Set(env, description, "deviceKind", FromText(env, client->KindOf(client->devices().front())));
    Set(env, description, "devices", FromInteger(env, static_cast<int64_t>(client->devices().size())));
    napi_value attributes = nullptr;
    Ok(env, napi_create_object(env, &attributes));
    for (const auto& [name, value] : client->plugin().Attributes()) {
      Set(env, attributes, name.c_str(), FromText(env, value));
    }
    Set(env, description, "attributes", attributes);
    return description;
  });
}

napi_value MemoryOf(napi_env env, napi_callback_info info) {
  return Guarded(env, [&] {
    const Arguments arguments(env, info);
    const auto client = ToHandle<Client>(env, arguments[0]);
    const MemoryDescription memory = client->MemoryOf(client->devices().front());
    napi_value description = nullptr;
    Ok(env, napi_create_object(env, &description));
    Set(env, description, "usedBytes", FromInteger(env, memory.used_bytes));
    Set(env, description, "limitBytes", FromInteger(env, memory.limit_bytes));
    return description;
  });
}

napi_value Upload(napi_env env, napi_callback_info info) {
  return Guarded(env, [&] {
    const Arguments arguments(env, info);
    const auto client = ToHandle<Client>(env, arguments[0]);
    const Memory memory = ToMemory(env, arguments[1]);
    const bool half = ToText(env, arguments[2]) == "bfloat16";
    const Dimensions dimensions = ToDimensions(env, arguments[3]);
    size_t bytes = half ? 2 : 4;
    for (const int64_t dimension : dimensions) bytes *= static_cast<size_t>(dimension);
    if (bytes != memory.bytes) {
      throw Failure("invalid_argument", "a weight of " + std::to_string(memory.bytes) + " bytes, but its dimensions say " +
                                            std::to_string(bytes));
    }
    const auto type = half ? PJRT_Buffer_Type_BF16 : PJRT_Buffer_Type_F32;
    return FromHandle(env, DeviceBuffer::Upload(client, client->devices().front(), memory.data, type, dimensions));
  });
}

}  // namespace dlrm::pjrt
