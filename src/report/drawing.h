// A drawing as SVG: lines, boxes and texts at given places. Every text keeps its box, so that nothing lies on anything
// else unnoticed.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

struct TextBox {
  double x = 0, y = 0, width = 0, height = 0;
  std::string text;
}; // its upper left corner

class Drawing {
public:
  static constexpr double size = 11, advance = 6.62, leading = 14; // of the one font: fixed width
  static double width_of(std::string_view text);

  void text(double x, double baseline, const std::string& text, const char* colour = "#222222",
            bool over = false); // over: a line above
  void line(double x1, double y1, double x2, double y2, const char* colour, double width = 1,
            const char* dash = nullptr);
  void box(double x, double y, double width, double height, const char* fill, const char* stroke, double round = 3);
  void append(const Drawing&, double dx, double dy);
  double width() const { return width_; }
  double height() const { return height_; }
  const std::vector<TextBox>& texts() const { return texts_; }
  std::string svg(const std::string& title) const;

private:
  void grow(double x, double y);
  std::string body_;
  std::vector<TextBox> texts_;
  double width_ = 0, height_ = 0;
};
bool meet(const TextBox&, const TextBox&);

} // namespace tilewright
