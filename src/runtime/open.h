// From a file or bytes to a program: ONNX or text, told apart by what is in it.
//
//   OpenOptions o = parse_options({{"threads", "2"}, {"size.batch", "8"}});
//   Program p = load_program("net.onnx", o);
//
// Options by name (docs/c_api.md): device, fuse, threads, isa, machine, plan, without, program, size.NAME, sparse,
// sparse.NAME, strict. Another name is Error(option) that lists these.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/session.h"

namespace tilewright {

struct OpenOptions {
  SessionOptions session;
  std::string program;                    // of a text file: its name; empty: the first
  std::map<std::string, Array> constants; // inputs and weights whose values are known now, by name
  bool open_weights = true;               // a weight without a value becomes an input, behind the others
};

OpenOptions parse_options(const std::vector<std::pair<std::string, std::string>>&);

// One element of parse_options, for a command line that has options of its own.
std::pair<std::string, std::int64_t> parse_size(const std::string& name, const std::string& value);

enum class Format { guess, onnx, text };

// Constants become weights and leave the inputs. Free sizes in options.session.sizes are not bound yet in a text
// program: Sessions does that.
Program load_program(const std::string& path, const OpenOptions&);
// Weights stay where they are in `bytes`, which must live as long as the program or belong to `owner`.
Program load_program(std::span<const std::byte> bytes, Format, const OpenOptions&,
                     std::shared_ptr<const void> owner = {});

// Weights and inputs of a program get their values, which must be of the declared type and shape.
void bind_constants(Program&, const std::map<std::string, Array>&);

// The bytes are looked at, not a name: text holds no control characters and has the word `program` outside its
// comments.
Format format_of(std::span<const std::byte>);

} // namespace tilewright
