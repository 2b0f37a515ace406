// What JavaScript sees: functions over opaque handles. It checks what it is given and moves it; the rest is in the other files.

#define NAPI_VERSION 8
#include <node_api.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>

#include "executable.h"
#include "live-objects.h"

namespace dlrm::pjrt {
namespace {

constexpr int kBindingVersion = 2;

constexpr napi_type_tag kClientTag = {0x6d1f6c0f0b8a4d51, 0x9a3f5be1c6d0a001};
constexpr napi_type_tag kExecutableTag = {0x6d1f6c0f0b8a4d51, 0x9a3f5be1c6d0a002};
constexpr napi_type_tag kBufferTag = {0x6d1f6c0f0b8a4d51, 0x9a3f5be1c6d0a003};

template <class T>
constexpr const napi_type_tag& TagOf();
template <>
constexpr const napi_type_tag& TagOf<Client>() { return kClientTag; }
template <>
constexpr const napi_type_tag& TagOf<Executable>() { return kExecutableTag; }
template <>
constexpr const napi_type_tag& TagOf<DeviceBuffer>() { return kBufferTag; }

/** A JavaScript exception is pending: go back to JavaScript. */
struct Pending {};

void Ok(napi_env env, napi_status status) {
  if (status == napi_ok) return;
  bool pending = false;
  napi_is_exception_pending(env, &pending);
  if (pending) throw Pending{};
  const napi_extended_error_info* info = nullptr;
  napi_get_last_error_info(env, &info);
  throw Failure("invalid_argument", info != nullptr && info->error_message != nullptr ? info->error_message : "?");
}

template <class Function>
napi_value Guarded(napi_env env, Function function) {
  try {
    return function();
  } catch (const Pending&) {
  } catch (const Failure& failure) {
    napi_throw_error(env, failure.code().c_str(), failure.what());
  } catch (const std::exception& error) {
    napi_throw_error(env, "internal", error.what());
  }
  return nullptr;
}

class Arguments {
 public:
  Arguments(napi_env env, napi_callback_info info) : env_(env) {
    Ok(env, napi_get_cb_info(env, info, &count_, values_, nullptr, nullptr));
  }
  napi_value operator[](size_t i) const {
    if (i >= count_) throw Failure("invalid_argument", "argument " + std::to_string(i) + " is missing");
    return values_[i];
  }

 private:
  napi_env env_;
  size_t count_ = 6;
  napi_value values_[6] = {};
};

std::string ToText(napi_env env, napi_value value) {
  size_t length = 0;
  Ok(env, napi_get_value_string_utf8(env, value, nullptr, 0, &length));
  std::string text(length, '\0');
  Ok(env, napi_get_value_string_utf8(env, value, text.data(), length + 1, &length));
  return text;
}

napi_value FromText(napi_env env, const std::string& text) {
  napi_value value = nullptr;
  Ok(env, napi_create_string_utf8(env, text.data(), text.size(), &value));
  return value;
}

napi_value FromInteger(napi_env env, int64_t integer) {
  napi_value value = nullptr;
  Ok(env, napi_create_int64(env, integer, &value));
  return value;
}

napi_value FromBytes(napi_env env, const std::string& bytes) {
  napi_value value = nullptr;
  Ok(env, napi_create_buffer_copy(env, bytes.size(), bytes.data(), nullptr, &value));
  return value;
}

void Set(napi_env env, napi_value object, const char* name, napi_value value) {
  Ok(env, napi_set_named_property(env, object, name, value));
}

template <class Values, class Convert>
napi_value FromList(napi_env env, const Values& values, Convert convert) {
  napi_value array = nullptr;
  Ok(env, napi_create_array_with_length(env, values.size(), &array));
  uint32_t i = 0;
  for (const auto& value : values) Ok(env, napi_set_element(env, array, i++, convert(value)));
  return array;
}

template <class Convert>
auto ToList(napi_env env, napi_value array, Convert convert) {
  uint32_t length = 0;
  Ok(env, napi_get_array_length(env, array, &length));
  std::vector<decltype(convert(array))> values;
  values.reserve(length);
  for (uint32_t i = 0; i < length; i++) {
    napi_value element = nullptr;
    Ok(env, napi_get_element(env, array, i, &element));
    values.push_back(convert(element));
  }
  return values;
}

Dimensions ToDimensions(napi_env env, napi_value array) {
  return ToList(env, array, [env](napi_value element) {
    int64_t dimension = 0;
    Ok(env, napi_get_value_int64(env, element, &dimension));
    if (dimension < 0) throw Failure("invalid_argument", "a dimension is negative");
    return dimension;
  });
}

struct Memory {
  void* data;
  size_t bytes;
};

/** The memory of a typed array, over shared memory or not. */
Memory ToMemory(napi_env env, napi_value value) {
  bool is_typed_array = false;
  Ok(env, napi_is_typedarray(env, value, &is_typed_array));
  if (!is_typed_array) throw Failure("invalid_argument", "not a typed array");
  napi_typedarray_type type;
  size_t length = 0;
  void* data = nullptr;
  Ok(env, napi_get_typedarray_info(env, value, &type, &length, &data, nullptr, nullptr));
  size_t element_bytes = 1;
  switch (type) {
    case napi_int16_array:
    case napi_uint16_array: element_bytes = 2; break;
    case napi_int32_array:
    case napi_uint32_array:
    case napi_float32_array: element_bytes = 4; break;
    case napi_float64_array:
    case napi_bigint64_array:
    case napi_biguint64_array: element_bytes = 8; break;
    default: break;
  }
  return {data, length * element_bytes};
}

std::string ToBytes(napi_env env, napi_value value) {
  const Memory memory = ToMemory(env, value);
  return std::string(static_cast<const char*>(memory.data), memory.bytes);
}

template <class T>
napi_value FromHandle(napi_env env, std::shared_ptr<T> handle) {
  napi_value object = nullptr;
  auto* kept = new std::shared_ptr<T>(std::move(handle));
  auto finalize = [](napi_env, void* data, void*) { delete static_cast<std::shared_ptr<T>*>(data); };
  if (napi_create_external(env, kept, finalize, nullptr, &object) != napi_ok) {
    delete kept;
    throw Failure("internal", "no handle can be made");
  }
  Ok(env, napi_type_tag_object(env, object, &TagOf<T>()));
  return object;
}

template <class T>
std::shared_ptr<T>& SlotOf(napi_env env, napi_value object) {
  bool matches = false;
  Ok(env, napi_check_object_type_tag(env, object, &TagOf<T>(), &matches));
  if (!matches) throw Failure("invalid_argument", "a handle of another kind");
  void* data = nullptr;
  Ok(env, napi_get_value_external(env, object, &data));
  return *static_cast<std::shared_ptr<T>*>(data);
}

template <class T>
std::shared_ptr<T> ToHandle(napi_env env, napi_value object) {
  std::shared_ptr<T> handle = SlotOf<T>(env, object);
  if (handle == nullptr) throw Failure("invalid_argument", "the handle was freed");
  return handle;
}

/** addressOf(array): where its memory begins. */
napi_value AddressOf(napi_env env, napi_callback_info info) {
  return Guarded(env, [&] {
    const Arguments arguments(env, info);
    napi_value address = nullptr;
    Ok(env, napi_create_bigint_uint64(env, reinterpret_cast<uintptr_t>(ToMemory(env, arguments[0]).data), &address));
    return address;
  });
}

std::map<std::string, napi_value> Entries(napi_env env, napi_value object) {
  napi_value names = nullptr;
  Ok(env, napi_get_property_names(env, object, &names));
  std::map<std::string, napi_value> entries;
  for (const std::string& name : ToList(env, names, [env](napi_value value) { return ToText(env, value); })) {
    napi_value value = nullptr;
    Ok(env, napi_get_named_property(env, object, name.c_str(), &value));
    entries.emplace(name, value);
  }
  return entries;
}

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

/** openClient(pluginPath, options, environment): a handle. */
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

/** describeClient(client): { apiVersion, platformName, platformVersion, deviceKind, devices, attributes }. */
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

/** memoryOf(client): { usedBytes, limitBytes } of its first device; -1 for what the plugin does not tell. */
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

/** upload(client, typedArray, "float32" | "bfloat16", dimensions): a handle. */
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

/** compile(client, program, compileOptions): a handle. */
napi_value Compile(napi_env env, napi_callback_info info) {
  return Guarded(env, [&] {
    const Arguments arguments(env, info);
    const auto client = ToHandle<Client>(env, arguments[0]);
    return FromHandle(env, Executable::Compile(client, ToBytes(env, arguments[1]), ToBytes(env, arguments[2])));
  });
}

/** deserialize(client, bytes): a handle. */
napi_value Deserialize(napi_env env, napi_callback_info info) {
  return Guarded(env, [&] {
    const Arguments arguments(env, info);
    const auto client = ToHandle<Client>(env, arguments[0]);
    return FromHandle(env, Executable::Deserialize(client, ToBytes(env, arguments[1])));
  });
}

/** serialize(executable): its bytes. */
napi_value Serialize(napi_env env, napi_callback_info info) {
  return Guarded(env, [&] {
    const Arguments arguments(env, info);
    return FromBytes(env, ToHandle<Executable>(env, arguments[0])->Serialize());
  });
}

/** outputsOf(executable): [{ type, dimensions }], types by PJRT's numbers. */
napi_value OutputsOf(napi_env env, napi_callback_info info) {
  return Guarded(env, [&] {
    const Arguments arguments(env, info);
    const auto outputs = ToHandle<Executable>(env, arguments[0])->Outputs();
    return FromList(env, outputs, [env](const OutputDescription& output) {
      napi_value description = nullptr;
      Ok(env, napi_create_object(env, &description));
      Set(env, description, "type", FromInteger(env, output.type));
      Set(env, description, "dimensions",
          FromList(env, output.dimensions, [env](int64_t dimension) { return FromInteger(env, dimension); }));
      return description;
    });
  });
}

/** optimizedProgram(executable): { format, code }. */
napi_value OptimizedProgram(napi_env env, napi_callback_info info) {
  return Guarded(env, [&] {
    const Arguments arguments(env, info);
    std::string format;
    const std::string code = ToHandle<Executable>(env, arguments[0])->OptimizedProgram(&format);
    napi_value program = nullptr;
    Ok(env, napi_create_object(env, &program));
    Set(env, program, "format", FromText(env, format));
    Set(env, program, "code", FromBytes(env, code));
    return program;
  });
}

/** bind(executable, inputDimensions, weights). */
napi_value Bind(napi_env env, napi_callback_info info) {
  return Guarded(env, [&]() -> napi_value {
    const Arguments arguments(env, info);
    auto inputs = ToList(env, arguments[1], [env](napi_value value) { return ToDimensions(env, value); });
    auto weights = ToList(env, arguments[2], [env](napi_value value) { return ToHandle<DeviceBuffer>(env, value); });
    ToHandle<Executable>(env, arguments[0])->Bind(std::move(inputs), std::move(weights));
    return nullptr;
  });
}

constexpr size_t kMaxTensors = 64;

/** The memory of each tensor of an array, which must be large enough. */
template <class BytesNeeded>
void ToAddresses(napi_env env, napi_value array, size_t count, void** addresses, BytesNeeded bytes_needed) {
  uint32_t length = 0;
  Ok(env, napi_get_array_length(env, array, &length));
  if (length != count || count > kMaxTensors) {
    throw Failure("invalid_argument", std::to_string(length) + " tensors, expected " + std::to_string(count));
  }
  for (uint32_t i = 0; i < length; i++) {
    napi_value element = nullptr;
    Ok(env, napi_get_element(env, array, i, &element));
    const Memory memory = ToMemory(env, element);
    if (memory.bytes < bytes_needed(i)) {
      throw Failure("invalid_argument", "tensor " + std::to_string(i) + " has " + std::to_string(memory.bytes) +
                                            " bytes, " + std::to_string(bytes_needed(i)) + " are needed");
    }
    addresses[i] = memory.data;
  }
}

/** The tensors of a call, which are the first arguments after the executable. */
struct CallTensors {
  CallTensors(napi_env env, const Arguments& arguments, const Executable& executable) {
    ToAddresses(env, arguments[1], executable.num_inputs(), inputs,
                [&](size_t i) { return executable.InputBytes(i); });
    ToAddresses(env, arguments[2], executable.num_outputs(), outputs,
                [&](size_t i) { return executable.OutputBytes(i); });
  }
  void* inputs[kMaxTensors];
  void* outputs[kMaxTensors];
};

/** run(executable, inputs, outputs): how many inputs were read in place. Blocks until all is done. */
napi_value Run(napi_env env, napi_callback_info info) {
  return Guarded(env, [&] {
    const Arguments arguments(env, info);
    const auto executable = ToHandle<Executable>(env, arguments[0]);
    const CallTensors tensors(env, arguments, *executable);
    return FromInteger(env, executable->Run(tensors.inputs, tensors.outputs));
  });
}

/** begin(executable, inputs, outputs): the tensors, which stay reachable, are the device's until the call is ended. */
napi_value Begin(napi_env env, napi_callback_info info) {
  return Guarded(env, [&]() -> napi_value {
    const Arguments arguments(env, info);
    const auto executable = ToHandle<Executable>(env, arguments[0]);
    const CallTensors tensors(env, arguments, *executable);
    executable->Begin(tensors.inputs, tensors.outputs);
    return nullptr;
  });
}

/** end(executable): blocks until the oldest call begun is done. How many inputs were read in place. */
napi_value End(napi_env env, napi_callback_info info) {
  return Guarded(env, [&] {
    const Arguments arguments(env, info);
    return FromInteger(env, ToHandle<Executable>(env, arguments[0])->End());
  });
}

/** liveObjects(): { clients, executables, buffers, events } of the process. */
napi_value CountLiveObjects(napi_env env, napi_callback_info) {
  return Guarded(env, [&] {
    napi_value counts = nullptr;
    Ok(env, napi_create_object(env, &counts));
    Set(env, counts, "clients", FromInteger(env, Live().clients));
    Set(env, counts, "executables", FromInteger(env, Live().executables));
    Set(env, counts, "buffers", FromInteger(env, Live().buffers));
    Set(env, counts, "events", FromInteger(env, Live().events));
    return counts;
  });
}

/** free(handle): as garbage collection would, but now. */
napi_value Free(napi_env env, napi_callback_info info) {
  return Guarded(env, [&]() -> napi_value {
    const Arguments arguments(env, info);
    bool matches = false;
    Ok(env, napi_check_object_type_tag(env, arguments[0], &kClientTag, &matches));
    if (matches) {
      SlotOf<Client>(env, arguments[0]).reset();
      return nullptr;
    }
    Ok(env, napi_check_object_type_tag(env, arguments[0], &kExecutableTag, &matches));
    if (matches) {
      SlotOf<Executable>(env, arguments[0]).reset();
      return nullptr;
    }
    SlotOf<DeviceBuffer>(env, arguments[0]).reset();
    return nullptr;
  });
}

}  // namespace
}  // namespace dlrm::pjrt

NAPI_MODULE_INIT() {
  using namespace dlrm::pjrt;
  const std::pair<const char*, napi_callback> functions[] = {
      {"addressOf", AddressOf},   {"openClient", OpenClient}, {"describeClient", DescribeClient},
      {"upload", Upload},         {"compile", Compile},       {"deserialize", Deserialize},
      {"serialize", Serialize},   {"outputsOf", OutputsOf},   {"optimizedProgram", OptimizedProgram},
      {"bind", Bind},             {"run", Run},               {"begin", Begin},
      {"end", End},               {"free", Free},             {"liveObjects", CountLiveObjects},
      {"memoryOf", MemoryOf},
  };
  return Guarded(env, [&] {
    for (const auto& [name, callback] : functions) {
      napi_value function = nullptr;
      Ok(env, napi_create_function(env, name, NAPI_AUTO_LENGTH, callback, nullptr, &function));
      Set(env, exports, name, function);
    }
    Set(env, exports, "BINDING_VERSION", FromInteger(env, kBindingVersion));
    return exports;
  });
}
