/* A comment /* in a comment */ and no entry point at all: a module is valid without one. */
struct Point {
    at: vec2<f32>, // no semicolon
}
; // an empty declaration
fn norm(point: Point) -> f32 {
    return length(point.at); /* the end */
}
