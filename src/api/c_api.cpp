// The C interface over sessions: checks what C cannot say, and turns exceptions into codes.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "report/explain.h"
#include "report/json.h"
#include "runtime/copy.h"
#include "runtime/open.h"
#include "runtime/sessions.h"
#include "tilewright/tilewright.h"

using namespace tilewright;

struct tw_session {
  Sessions sessions;
};

namespace {

thread_local std::string last_error = "{}";

tw_status failed(const Error& e) {
  try {
    last_error = error_json(e);
  } catch (...) { // no memory even for the message
    last_error = "{}";
  }
  return static_cast<tw_status>(kind_of(e.code));
}

template <class F> tw_status guarded(F&& work) noexcept {
  try {
    work();
    return TW_OK;
  } catch (const Error& e) {
    return failed(e);
  } catch (const std::bad_alloc&) {
    return failed(Error(Code::memory, "", "there is not enough memory"));
  } catch (const std::exception& e) {
    return failed(Error(Code::internal, "", e.what(), "this is a mistake in tilewright; please report it"));
  } catch (...) {
    return failed(Error(Code::internal, "", "an unknown failure"));
  }
}

[[noreturn]] void misuse(const std::string& where, const std::string& what) {
  throw Error(Code::input, where, what, "see tilewright.h");
}

void require(const void* pointer, const char* name) {
  if (!pointer) misuse(name, "is NULL");
}

DType dtype_of(const tw_tensor& t, const std::string& where) {
  if (t.dtype < TW_F64 || t.dtype > TW_BOOL) misuse(where, fmt::format("dtype {} is not known", t.dtype));
  return static_cast<DType>(t.dtype);
}
static_assert(static_cast<int>(DType::f64) == TW_F64 && static_cast<int>(DType::f32) == TW_F32 &&
              static_cast<int>(DType::bf16) == TW_BF16 && static_cast<int>(DType::f8e5m2) == TW_F8E5M2 &&
              static_cast<int>(DType::i8) == TW_I8 && static_cast<int>(DType::i64) == TW_I64 &&
              static_cast<int>(DType::boolean) == TW_BOOL);

std::vector<std::int64_t> shape_of(const tw_tensor& t, const std::string& where) {
  if (t.ndim < 0 || t.ndim > TW_MAX_DIMS)
    misuse(where, fmt::format("has {} dims, 0 to {} can be said", t.ndim, static_cast<int>(TW_MAX_DIMS)));
  std::int64_t count = 8; // the widest element
  for (int d = 0; d < t.ndim; ++d) {
    if (t.shape[d] < 0) misuse(where, fmt::format("dim {} is {}", d, t.shape[d]));
    count = t.shape[d] == 0 ? count : checked_mul(count, t.shape[d]);
  }
  return {t.shape, t.shape + t.ndim};
}

// The caller's array as ours. Strides are bounded, so that no address computed from them can wrap around.
Strided strided_of(const tw_tensor& t, const std::string& where, bool output) {
  Strided s{dtype_of(t, where), shape_of(t, where), {}, static_cast<std::byte*>(t.data)};
  if (t.device != TW_CPU && t.device != TW_CUDA)
    misuse(where, fmt::format("is on device {}, which is not known", t.device));
  if (t.device == TW_CUDA && t.device_id < 0) misuse(where, fmt::format("is on GPU {}", t.device_id));
  if (t.device == TW_CUDA) s.gpu = t.device_id;
  std::int64_t reach = 1;
  for (int d = 0; d < t.ndim; ++d) {
    s.strides.push_back(t.stride[d]);
    if (t.stride[d] == INT64_MIN) misuse(where, fmt::format("stride {} is out of range", d));
    if (output && t.stride[d] == 0 && t.shape[d] > 1) misuse(where, fmt::format("stride {} of an output is 0", d));
    reach = checked_add(reach, checked_mul(std::abs(t.stride[d]), std::max<std::int64_t>(0, t.shape[d] - 1)));
  }
  const std::int64_t bytes = checked_mul(reach, static_cast<std::int64_t>(bytes_of(s.dtype)));
  const auto count = std::find(s.dims.begin(), s.dims.end(), 0) != s.dims.end() ? 0 : bytes;
  if (t.capacity < 0) misuse(where, "capacity is negative");
  if (t.capacity > 0 && is_dense(s) && count > t.capacity)
    misuse(where, fmt::format("has {} bytes, {} are needed", t.capacity, count));
  if (!s.data && count > 0) misuse(where, "has no data");
  return s;
}

// Which of the declared tensors each given one is: by name, or by position where it has none.
std::vector<int> matched(const Program& p, const std::vector<TensorId>& declared, const tw_tensor* given, std::size_t n,
                         const char* what) {
  if (n > 0) require(given, what);
  std::vector<int> at(declared.size(), -1);
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t position = i;
    if (given[i].name) {
      position = 0;
      while (position < declared.size() && p.tensor(declared[position]).name != given[i].name) ++position;
      if (position == declared.size()) {
        std::string names;
        for (TensorId id : declared) names += (names.empty() ? "" : ", ") + p.tensor(id).name;
        throw Error(Code::input, given[i].name, fmt::format("the model has no {} of this name", what),
                    names.empty() ? "" : fmt::format("it has {}", names));
      }
    }
    if (position >= declared.size())
      throw Error(Code::input, "", fmt::format("{} {}s are given, the model has {}", n, what, declared.size()));
    if (at[position] >= 0)
      throw Error(Code::input, p.tensor(declared[position]).name, fmt::format("the {} is given twice", what));
    at[position] = static_cast<int>(i);
  }
  return at;
}

std::vector<int> matched_inputs(const Program& p, const tw_tensor* in, std::size_t n) {
  const std::vector<int> at = matched(p, p.inputs, in, n, "input");
  for (std::size_t i = 0; i < at.size(); ++i)
    if (at[i] < 0) throw Error(Code::input, p.tensor(p.inputs[i]).name, "the input is missing");
  return at;
}

Binding bound(const Sessions& s, const tw_tensor* in, const std::vector<int>& at) {
  std::vector<std::vector<std::int64_t>> shapes;
  for (std::size_t i = 0; i < at.size(); ++i)
    shapes.push_back(shape_of(in[at[i]], s.program().tensor(s.program().inputs[i]).name));
  return s.bind(shapes);
}

void run(Sessions& sessions, const tw_tensor* in, std::size_t nin, tw_tensor* out, std::size_t nout, void* stream) {
  const Program& p = sessions.program();
  const std::vector<int> in_at = matched_inputs(p, in, nin), out_at = matched(p, p.outputs, out, nout, "output");
  const Binding sizes = bound(sessions, in, in_at);
  std::vector<Strided> given, wanted;
  for (std::size_t i = 0; i < in_at.size(); ++i)
    given.push_back(strided_of(in[in_at[i]], p.tensor(p.inputs[i]).name, false));
  std::vector<Array> unwanted;
  for (std::size_t o = 0; o < out_at.size(); ++o) {
    const Tensor& t = p.tensor(p.outputs[o]);
    if (out_at[o] >= 0) {
      wanted.push_back(strided_of(out[out_at[o]], t.name, true));
    } else {
      unwanted.push_back(Array::make(t.dtype, sessions.output_dims(o, sizes)));
      wanted.push_back(dense(unwanted.back()));
    }
  }
  const auto session = sessions.session(sizes);
  if (stream && session->gpu() < 0) misuse("stream", "must be NULL on a CPU");
  const auto dims = session->run(given, wanted, {nullptr, nullptr, stream});
  for (std::size_t o = 0; o < out_at.size(); ++o)
    if (out_at[o] >= 0) std::copy(dims[o].begin(), dims[o].end(), out[out_at[o]].shape);
}

void shapes(const Sessions& sessions, const tw_tensor* in, std::size_t nin, tw_tensor* out, std::size_t nout) {
  const Program& p = sessions.program();
  const std::vector<int> in_at = matched_inputs(p, in, nin), out_at = matched(p, p.outputs, out, nout, "output");
  const Binding sizes = bound(sessions, in, in_at);
  for (std::size_t o = 0; o < out_at.size(); ++o) {
    if (out_at[o] < 0) continue;
    tw_tensor& t = out[out_at[o]];
    const std::vector<std::int64_t> dims = sessions.output_dims(o, sizes), strides = row_strides(dims);
    if (dims.size() > TW_MAX_DIMS)
      throw Error(
          Code::unsupported, p.tensor(p.outputs[o]).name,
          fmt::format("has {} dims, {} can be said in a tw_tensor", dims.size(), static_cast<int>(TW_MAX_DIMS)));
    t.dtype = static_cast<std::int32_t>(p.tensor(p.outputs[o]).dtype);
    t.ndim = static_cast<std::int32_t>(dims.size());
    std::copy(dims.begin(), dims.end(), t.shape);
    std::copy(strides.begin(), strides.end(), t.stride);
  }
}

std::string described(Sessions& s, const std::string& what) {
  if (what == "inputs") return tensors_json(s.program(), s.program().inputs);
  if (what == "outputs") return tensors_json(s.program(), s.program().outputs);
  if (what == "plan") {
    const auto session = s.session();
    return plan_json(session->plan(), session->executable());
  }
  if (what == "explain") {
    const auto session = s.session();
    return explain_json(session->plan(), session->executable());
  }
  throw Error(Code::option, what, "nothing of this name is described", "inputs, outputs, plan, explain");
}

OpenOptions options_of(const tw_source& source) {
  std::vector<std::pair<std::string, std::string>> list;
  if (source.option_count > 0) require(source.options, "options");
  for (std::size_t i = 0; i < source.option_count; ++i) {
    require(source.options[i].key, "option key");
    require(source.options[i].value, source.options[i].key);
    list.emplace_back(source.options[i].key, source.options[i].value);
  }
  OpenOptions o = parse_options(list);
  if (source.constant_count > 0) require(source.constants, "constants");
  for (std::size_t i = 0; i < source.constant_count; ++i) {
    const tw_tensor& t = source.constants[i];
    require(t.name, "name of a constant");
    const Strided s = strided_of(t, t.name, false);
    if (s.gpu >= 0) misuse(t.name, "is on a GPU, constants are given in the CPU's memory");
    Array copy = Array::make(s.dtype, s.dims);
    copy_elements(dense(copy), s);
    if (!o.constants.emplace(t.name, std::move(copy)).second) misuse(t.name, "the constant is given twice");
  }
  return o;
}

void open(const tw_source& source, tw_session** out) {
  const OpenOptions o = options_of(source);
  Program program;
  if (source.path) {
    program = load_program(source.path, o);
  } else {
    if (source.size > 0) require(source.bytes, "bytes");
    auto bytes = std::make_shared<std::vector<std::byte>>(source.size);
    if (source.size > 0) std::memcpy(bytes->data(), source.bytes, source.size);
    const Format format = source.is_text < 0 ? Format::guess : source.is_text ? Format::text : Format::onnx;
    const std::span<const std::byte> view(*bytes);
    program = load_program(view, format, o, std::move(bytes));
  }
  *out = new tw_session{Sessions(std::move(program), o.session)};
}

} // namespace

extern "C" {

const char* tw_version(void) { return TILEWRIGHT_VERSION; }

const char* tw_last_error(void) { return last_error.c_str(); }

tw_status tw_open_source(const tw_source* source, tw_session** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require(source, "source");
    open(*source, out);
  });
}

tw_status tw_open(const char* path, const tw_option* options, size_t n, tw_session** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require(path, "path");
    open({path, nullptr, 0, -1, options, n, nullptr, 0}, out);
  });
}

tw_status tw_open_memory(const void* bytes, size_t size, int is_text, const tw_option* options, size_t n,
                         tw_session** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require(bytes, "bytes");
    open({nullptr, bytes, size, is_text, options, n, nullptr, 0}, out);
  });
}

tw_status tw_describe(tw_session* session, const char* what, char** json) {
  return guarded([&] {
    require(json, "json");
    *json = nullptr;
    require(session, "session");
    require(what, "what");
    const std::string text = described(session->sessions, what);
    char* copy = static_cast<char*>(std::malloc(text.size() + 1));
    if (!copy) throw std::bad_alloc();
    std::memcpy(copy, text.c_str(), text.size() + 1);
    *json = copy;
  });
}

tw_status tw_shape(tw_session* session, const tw_tensor* in, size_t nin, tw_tensor* out, size_t nout) {
  return guarded([&] {
    require(session, "session");
    shapes(session->sessions, in, nin, out, nout);
  });
}

tw_status tw_run(tw_session* session, const tw_tensor* in, size_t nin, tw_tensor* out, size_t nout, void* stream) {
  return guarded([&] {
    require(session, "session");
    run(session->sessions, in, nin, out, nout, stream);
  });
}

tw_status tw_time(tw_session* session, int runs, double* seconds) {
  return guarded([&] {
    require(session, "session");
    require(seconds, "seconds");
    if (runs < 1) misuse("runs", fmt::format("is {}, must be positive", runs));
    const auto last = session->sessions.session();
    if (last->gpu() < 0) misuse("session", "is not on a GPU");
    const std::vector<double> list = last->device_seconds(runs);
    std::copy(list.begin(), list.end(), seconds);
  });
}

size_t tw_bytes(const tw_tensor* t) {
  try {
    if (!t) return 0;
    auto bytes = static_cast<std::int64_t>(bytes_of(dtype_of(*t, {})));
    for (std::int64_t d : shape_of(*t, {})) bytes = checked_mul(bytes, d);
    return static_cast<size_t>(bytes);
  } catch (...) {
    return 0;
  }
}

void tw_free(void* string) { std::free(string); }

void tw_close(tw_session* session) { delete session; }

} // extern "C"
