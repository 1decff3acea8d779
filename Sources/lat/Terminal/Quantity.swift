/// Numbers as people read them.
enum Quantity {
    /// `812 B`, `12.3 KiB`, `4.00 MiB`: three digits that count.
    static func bytes(_ count: Int64) -> String {
        guard count >= 1_024 else { return "\(max(0, count)) B" }
        var value = Double(count) / 1_024
        var unit = 0
        let units = ["KiB", "MiB", "GiB", "TiB"]
        // 999.5 and more would show four digits.
        while value >= 999.5, unit < units.count - 1 {
            value /= 1_024
            unit += 1
        }
        return "\(threeDigits(value)) \(units[unit])"
    }

    /// `40 µs`, `1.23 ms`, `45.0 ms`, `1.52 s`, `2 m 05 s`, `3 h 07 m`.
    static func duration(_ duration: Duration) -> String {
        let microseconds = max(0, duration.microseconds)
        let seconds = (microseconds + 500_000) / 1_000_000
        switch microseconds {
        case ..<1_000: return "\(microseconds) µs"
        case ..<999_500: return "\(threeDigits(Double(microseconds) / 1_000)) ms"
        case ..<59_950_000: return "\(threeDigits(Double(microseconds) / 1_000_000)) s"
        case ..<3_600_000_000: return "\(seconds / 60) m \(twoDigits(seconds % 60)) s"
        default: return "\(seconds / 3_600) h \(twoDigits(seconds / 60 % 60)) m"
        }
    }

    /// `12,345`.
    static func grouped(_ number: Int) -> String {
        var digits = String(number.magnitude)
        var groups: [String] = []
        while digits.count > 3 {
            groups.insert(String(digits.suffix(3)), at: 0)
            digits.removeLast(3)
        }
        groups.insert(digits, at: 0)
        return (number < 0 ? "-" : "") + groups.joined(separator: ",")
    }

    private static func threeDigits(_ value: Double) -> String {
        fixed(value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0)
    }

    private static func fixed(_ value: Double, _ places: Int) -> String {
        let scale = [1, 10, 100][places]
        let scaled = Int64((value * Double(scale)).rounded())
        guard places > 0 else { return "\(scaled)" }
        let fraction = String(scaled % Int64(scale))
        return "\(scaled / Int64(scale))." + String(repeating: "0", count: places - fraction.count) + fraction
    }

    private static func twoDigits(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
}

extension Duration {
    /// Whole microseconds.
    var microseconds: Int64 { components.seconds * 1_000_000 + components.attoseconds / 1_000_000_000_000 }

    /// Seconds with their fraction.
    var inSeconds: Double { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
}
