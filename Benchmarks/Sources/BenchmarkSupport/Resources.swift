import Foundation
import Glibc

/// What the operating system knows about this process.
public enum Resources {
    /// Seconds of processor time so far, user and system, all threads.
    public static var cpuSeconds: Double {
        let usage = resourceUsage
        return Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
            + Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6
    }

    /// The most memory that was resident so far, in KiB. Not `ru_maxrss`: that begins with what the parent had before
    /// `exec`.
    public static var peakKilobytes: Int { status("VmHWM:") }

    /// The memory that is resident now, in KiB.
    public static var residentKilobytes: Int { status("VmRSS:") }

    /// How many descriptors are open now.
    public static var openDescriptors: Int {
        (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? 0
    }

    /// Allows as many descriptors as this process may have.
    public static func raiseDescriptorLimit() {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }

    /// A line of `/proc/self/status`.
    private static func status(_ name: String) -> Int {
        guard let text = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8),
            let line = text.split(separator: "\n").first(where: { $0.hasPrefix(name) }),
            let number = line.split(whereSeparator: { $0 == " " || $0 == "\t" }).dropFirst().first
        else { return 0 }
        return Int(number) ?? 0
    }

    private static var resourceUsage: rusage {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        return usage
    }
}
