import FoundationEssentials
import LATNetworking

/// What is known of the servers that are probed, as lines and as JSON: a pure value.
struct ProbeTable {
    var reports: [ReachabilityReport]

    private static let heads = ["name", "status", "latency", "address"]

    /// A head, then a line for each server; none is wider than the columns given.
    func lines(_ style: Style, columns: Int = .max) -> [String] {
        let rows = reports.map(Self.cells)
        let widths = Self.heads.indices.map { column in
            rows.map { $0[column].count }.reduce(Self.heads[column].count, max)
        }
        return [line(Self.heads, widths, columns) { text, _ in style.dim(text) }]
            + zip(reports, rows).map { report, cells in
                line(cells, widths, columns) { text, column in
                    column == 1 ? Self.painted(text, report.status, style) : text
                }
            }
    }

    private func line(
        _ cells: [String], _ widths: [Int], _ columns: Int, _ paint: (String, Int) -> String
    ) -> String {
        var line = ""
        var room = columns
        for (column, cell) in cells.enumerated() {
            let isLast = column == cells.count - 1
            let text = isLast ? cell : cell.padded(toEnd: widths[column] + 2)
            let shown = String(text.prefix(max(0, room)))
            room -= shown.count
            line += paint(shown, column)
        }
        return line
    }

    private static func cells(_ report: ReachabilityReport) -> [String] {
        [
            SafeText.line(report.target), words(report.status), report.status.latency.map(Quantity.duration) ?? "",
            SafeText.line(report.status.address ?? ""),
        ]
    }

    /// `reachable`, `unreachable: refused`.
    static func words(_ status: ReachabilityStatus) -> String {
        switch status {
        case .unknown: "unknown"
        case .reachable: "reachable"
        case .unreachable(let reason): "unreachable: \(reason.rawValue)"
        }
    }

    static func painted(_ text: String, _ status: ReachabilityStatus, _ style: Style) -> String {
        switch status {
        case .unknown: style.dim(text)
        case .reachable: style.green(text)
        case .unreachable: style.red(text)
        }
    }

    /// What `--format json` prints.
    var json: JSONValue {
        [
            "reachable": .bool(reports.allSatisfy(\.status.isReachable)),
            "targets": .array(reports.map(Self.value)),
        ]
    }

    /// One server. The latency is in milliseconds; what is not known is null.
    static func value(_ report: ReachabilityReport) -> JSONValue {
        let status =
            switch report.status {
            case .unknown: "unknown"
            case .reachable: "reachable"
            case .unreachable: "unreachable"
            }
        return [
            "name": .string(report.target),
            "url": report.url.isEmpty ? .null : .string(report.url),
            "status": .string(status),
            "latency": report.status.latency.map { .double(Double($0.microseconds) / 1_000) } ?? .null,
            "address": report.status.address.map { .string($0) } ?? .null,
            "reason": report.status.reason.map { .string($0.rawValue) } ?? .null,
            "message": report.error.map { .string($0.message) } ?? .null,
            "time": report.date.map { .string($0.ISO8601Format()) } ?? .null,
        ]
    }
}
