// The module that JavaScript loads: its functions by name, and those of no client or program.

#include "binding-functions.h"
#include "live-objects.h"
#include "napi-handles.h"

namespace dlrm::pjrt {
namespace {

constexpr int kBindingVersion = 3;

/** addressOf(array): where its memory begins. */
napi_value AddressOf(napi_env env, napi_callback_info info) {
  return Guarded(env, [&] {
    const Arguments arguments(env, info);
    napi_value address = nullptr;
    Ok(env, napi_create_bigint_uint64(env, reinterpret_cast<uintptr_t>(ToMemory(env, arguments[0]).data), &address));
    return address;
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
      {"memoryOf", MemoryOf},     {"setThreadSlice", SetThreadSlice},
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
