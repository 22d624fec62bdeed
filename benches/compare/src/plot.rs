//! The figures as a plot.

use crate::{Figure, Result, WAYS};
use plotters::prelude::*;

/// What a legend says of each of [`WAYS`].
const LABELS: [&str; 5] = [
    "compiled at run time",
    "embedded (cutile-embed)",
    "the driver alone",
    "disk cache of a run before",
    "cache folder that was shipped",
];
const COLORS: [RGBColor; 5] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(70, 70, 70),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
];

/// Prints the SVG of a file with a figure a line.
pub(crate) fn plot(file: &str) -> Result<()> {
    let text = std::fs::read_to_string(file)?;
    let figures: Vec<Figure> =
        text.lines().map(serde_json::from_str).collect::<serde_json::Result<_>>()?;
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (860, 520)).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .margin(16)
            .x_label_area_size(44)
            .y_label_area_size(76)
            .build_cartesian_2d((1f64..1200f64).log_scale(), (1f64..400_000f64).log_scale())?;
        chart
            .configure_mesh()
            .x_desc("kernels, each launched once")
            .y_desc("time to the last first launch")
            .x_label_formatter(&|kernels| format!("{kernels:.0}"))
            .y_label_formatter(&|ms| time(*ms))
            .light_line_style(RGBColor(240, 240, 240))
            .label_style(("sans-serif", 14))
            .draw()?;
        for ((way, label), color) in WAYS.iter().zip(LABELS).zip(COLORS) {
            let points: Vec<(f64, f64)> = figures
                .iter()
                .filter(|figure| figure.way == *way)
                .map(|figure| (figure.kernels as f64, figure.us / 1e3))
                .collect();
            if points.is_empty() {
                continue;
            }
            chart
                .draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))?
                .label(label)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2))
                });
            chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, color.filled())))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE)
            .label_font(("sans-serif", 14))
            .draw()?;
        root.present()?;
    }
    print!("{svg}");
    Ok(())
}

/// Milliseconds in the unit that reads best.
fn time(ms: f64) -> String {
    match ms {
        _ if ms >= 1000.0 => format!("{} s", ms / 1000.0),
        _ if ms >= 1.0 => format!("{ms} ms"),
        _ => format!("{} µs", (ms * 1000.0).round()),
    }
}
