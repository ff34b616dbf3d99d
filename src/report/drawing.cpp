#include "report/drawing.h"

#include <algorithm>

#include <fmt/format.h>

namespace tilewright {

namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

} // namespace

double Drawing::width_of(std::string_view text) { return advance * static_cast<double>(text.size()); }

void Drawing::grow(double x, double y) { width_ = std::max(width_, x), height_ = std::max(height_, y); }

void Drawing::text(double x, double baseline, const std::string& t, const char* colour, bool over) {
  if (t.empty()) return;
  body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\">{}</text>\n", x, baseline, colour, escaped(t));
  // An overline of its own: not every viewer draws text-decoration.
  if (over) line(x, baseline - size + 0.5, x + width_of(t), baseline - size + 0.5, colour);
  texts_.push_back({x, baseline - size + 1, width_of(t), size + 1, t});
  grow(x + width_of(t), baseline + 4);
}

void Drawing::line(double x1, double y1, double x2, double y2, const char* colour, double width, const char* dash) {
  body_ += fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"{:g}\"{}/>\n", x1, y1,
      x2, y2, colour, width, dash ? fmt::format(" stroke-dasharray=\"{}\"", dash) : "");
  grow(std::max(x1, x2), std::max(y1, y2));
}

void Drawing::box(double x, double y, double width, double height, const char* fill, const char* stroke, double round) {
  body_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"{:g}\" fill=\"{}\" stroke=\"{}\"/>\n", x,
      y, width, height, round, fill, stroke);
  grow(x + width, y + height);
}

void Drawing::append(const Drawing& other, double dx, double dy) {
  body_ += fmt::format("<g transform=\"translate({:.1f} {:.1f})\">\n{}</g>\n", dx, dy, other.body_);
  for (TextBox t : other.texts_) t.x += dx, t.y += dy, texts_.push_back(t);
  grow(dx + other.width_, dy + other.height_);
}

std::string Drawing::svg(const std::string& title) const {
  return fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 "
                     "{0:.0f} {1:.0f}\" font-family=\"monospace\" font-size=\"{2:g}\">\n"
                     "<title>{3}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{4}</svg>\n",
                     width_ + 16, height_ + 16, size, escaped(title), body_);
}

bool meet(const TextBox& a, const TextBox& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

} // namespace tilewright
