// Values of JavaScript as values of C++ and back, and what is thrown in between.

#pragma once

#define NAPI_VERSION 8
#include <node_api.h>

#include <map>
#include <string>
#include <vector>

#include "client.h"

namespace dlrm::pjrt {

/** A JavaScript exception is pending: go back to JavaScript. */
struct Pending {};

inline void Ok(napi_env env, napi_status status) {
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

inline std::string ToText(napi_env env, napi_value value) {
  size_t length = 0;
  Ok(env, napi_get_value_string_utf8(env, value, nullptr, 0, &length));
  std::string text(length, '\0');
  Ok(env, napi_get_value_string_utf8(env, value, text.data(), length + 1, &length));
  return text;
}

inline napi_value FromText(napi_env env, const std::string& text) {
  napi_value value = nullptr;
  Ok(env, napi_create_string_utf8(env, text.data(), text.size(), &value));
  return value;
}

inline napi_value FromInteger(napi_env env, int64_t integer) {
  napi_value value = nullptr;
  Ok(env, napi_create_int64(env, integer, &value));
  return value;
}

inline napi_value FromBytes(napi_env env, const std::string& bytes) {
  napi_value value = nullptr;
  Ok(env, napi_create_buffer_copy(env, bytes.size(), bytes.data(), nullptr, &value));
  return value;
}

inline void Set(napi_env env, napi_value object, const char* name, napi_value value) {
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

inline Dimensions ToDimensions(napi_env env, napi_value array) {
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
inline Memory ToMemory(napi_env env, napi_value value) {
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

inline std::string ToBytes(napi_env env, napi_value value) {
  const Memory memory = ToMemory(env, value);
  return std::string(static_cast<const char*>(memory.data), memory.bytes);
}

inline std::map<std::string, napi_value> Entries(napi_env env, napi_value object) {
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

}  // namespace dlrm::pjrt
