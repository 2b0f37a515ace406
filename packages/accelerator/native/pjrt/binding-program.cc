#include "binding-functions.h"
#include "napi-handles.h"

namespace dlrm::pjrt {

napi_value Compile(napi_env env, napi_callback_info info) {
  return Guarded(env, [&] {
    const Arguments arguments(env, info);
    const auto client = ToHandle<Client>(env, arguments[0]);
    return FromHandle(env, Executable::Compile(client, ToBytes(env, arguments[1]), ToBytes(env, arguments[2])));
  });
}

napi_value Deserialize(napi_env env, napi_callback_info info) {
  return Guarded(env, [&] {
    const Arguments arguments(env, info);
    const auto client = ToHandle<Client>(env, arguments[0]);
    return FromHandle(env, Executable::Deserialize(client, ToBytes(env, arguments[1])));
  });
}

napi_value Serialize(napi_env env, napi_callback_info info) {
  return Guarded(env, [&] {
    const Arguments arguments(env, info);
    return FromBytes(env, ToHandle<Executable>(env, arguments[0])->Serialize());
  });
}

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

napi_value Bind(napi_env env, napi_callback_info info) {
  return Guarded(env, [&]() -> napi_value {
    const Arguments arguments(env, info);
    auto inputs = ToList(env, arguments[1], [env](napi_value value) { return ToDimensions(env, value); });
    auto weights = ToList(env, arguments[2], [env](napi_value value) { return ToHandle<DeviceBuffer>(env, value); });
    ToHandle<Executable>(env, arguments[0])->Bind(std::move(inputs), std::move(weights));
    return nullptr;
  });
}

}  // namespace dlrm::pjrt
