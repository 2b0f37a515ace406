// Opaque handles: JavaScript holds what C++ shares, until it is freed or garbage.

#pragma once

#include <memory>

#include "executable.h"
#include "napi-values.h"

namespace dlrm::pjrt {

inline constexpr napi_type_tag kClientTag = {0x6d1f6c0f0b8a4d51, 0x9a3f5be1c6d0a001};
inline constexpr napi_type_tag kExecutableTag = {0x6d1f6c0f0b8a4d51, 0x9a3f5be1c6d0a002};
inline constexpr napi_type_tag kBufferTag = {0x6d1f6c0f0b8a4d51, 0x9a3f5be1c6d0a003};

template <class T>
constexpr const napi_type_tag& TagOf();
template <>
constexpr const napi_type_tag& TagOf<Client>() { return kClientTag; }
template <>
constexpr const napi_type_tag& TagOf<Executable>() { return kExecutableTag; }
template <>
constexpr const napi_type_tag& TagOf<DeviceBuffer>() { return kBufferTag; }

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

}  // namespace dlrm::pjrt
