import FoundationEssentials
import Glibc

/// The resources of this process, as the operating system reports them.
public enum Resources {
    /// The processor time so far in seconds: user and system, all threads.
    public static var cpuSeconds: Double {
        let usage = resourceUsage
        return Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
            + Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6
    }

    /// The peak of resident memory in KiB. `ru_maxrss` is not used, because it includes the memory of the parent
    /// process before `exec`.
    public static var peakKilobytes: Int { status("VmHWM:") }

    /// The resident memory in KiB.
    public static var residentKilobytes: Int { status("VmRSS:") }

    /// The number of open descriptors.
    public static var openDescriptors: Int {
        (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? 0
    }

    /// Raises the limit of descriptors to the hard limit.
    public static func raiseDescriptorLimit() {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }

    /// Reads a number from `/proc/self/status`.
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
