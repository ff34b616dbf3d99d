#include "support/error.h"

#include <utility>

namespace tilewright {

namespace {

struct CodeRow {
  std::string_view id;
  ErrorKind kind;
};

CodeRow row_of(Code code) {
  switch (code) {
  case Code::syntax: return {"E0101", ErrorKind::usage};
  case Code::name: return {"E0102", ErrorKind::usage};
  case Code::type: return {"E0103", ErrorKind::usage};
  case Code::shape: return {"E0104", ErrorKind::usage};
  case Code::bounds: return {"E0105", ErrorKind::usage};
  case Code::size: return {"E0106", ErrorKind::usage};
  case Code::cycle: return {"E0107", ErrorKind::usage};
  case Code::file: return {"E0201", ErrorKind::usage};
  case Code::model: return {"E0202", ErrorKind::usage};
  case Code::external: return {"E0203", ErrorKind::usage};
  case Code::input: return {"E0301", ErrorKind::usage};
  case Code::option: return {"E0302", ErrorKind::usage};
  case Code::unsupported: return {"E0401", ErrorKind::unsupported};
  case Code::check: return {"E0501", ErrorKind::check_failed};
  case Code::device: return {"E0601", ErrorKind::no_device};
  case Code::memory: return {"E0602", ErrorKind::no_device};
  case Code::interrupted: return {"E0701", ErrorKind::interrupted};
  case Code::internal: break;
  }
  return {"E0901", ErrorKind::internal};
}

std::string text_of(Code code, const std::string& where, const std::string& message, const std::string& hint) {
  std::string text(id_of(code));
  text += ' ';
  if (!where.empty()) text.append(where).append(": ");
  text += message;
  if (!hint.empty()) text.append(" (").append(hint).append(")");
  return text;
}

} // namespace

std::string_view id_of(Code code) { return row_of(code).id; }

ErrorKind kind_of(Code code) { return row_of(code).kind; }

Error::Error(Code code_, std::string where_, std::string message_, std::string hint_)
    : code(code_), where(std::move(where_)), message(std::move(message_)), hint(std::move(hint_)),
      text_(text_of(code, where, message, hint)) {}

Error Error::at(std::string place) const {
  return where.empty() ? Error(code, std::move(place), message, hint) : *this;
}

void assertion_failed(const char* condition, const char* file, int line) {
  // The place is told relative to the source tree: where the binary was built is nobody's business.
  std::string_view name(file);
  if (auto at = name.rfind("src/"); at != std::string_view::npos) name.remove_prefix(at);
  throw Error(Code::internal, std::string(name) + ":" + std::to_string(line),
              "assertion failed: " + std::string(condition), "this is a mistake in tilewright; please report it");
}

} // namespace tilewright
