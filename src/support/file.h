// Files: read by mapping them, written so that nobody ever sees half of one.
//
//   Mapping m = map_file("model.onnx");         m.bytes is the file; m.owner keeps the mapping alive
//   std::string text = read_text("gemm.tw");
//   write_file("plan.json", json);              a new file beside it, flushed, then renamed over the old one
//
// All of them throw Error(Code::file) with the path and the system's reason. A mapped file must not be shortened by
// somebody else while it is in use; no system tells a reader of that in time.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tilewright {

struct Mapping {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

// What may be opened. A stream (a pipe, standard input) is read to its end into memory; regular refuses it, which is
// what a path out of an untrusted file needs: opening a pipe nobody writes to would wait for ever.
enum class Accept { regular, stream };

Mapping map_file(const std::string& path, Accept accept = Accept::stream);
// These bytes will not be needed soon: where they lie in a mapped file their pages leave the process's memory, and come back
// from the file if they are read after all. Nothing happens to other memory.
void release_pages(std::span<const std::byte>);
void release_mapping(std::span<const std::byte>);   // all of the file in which they lie
std::string read_text(const std::string& path);
void write_file(const std::string& path, std::string_view bytes);

} // namespace tilewright
