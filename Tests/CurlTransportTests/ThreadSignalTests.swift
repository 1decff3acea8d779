import CurlTransport
import FoundationEssentials
import Glibc
import LATTesting
import Testing

/// The engine's thread handles no signals of the app.
struct ThreadSignalTests {
    /// Returns the signal masks of threads; bit 0 stands for signal 1.
    private func blockedSignals(ofThreadsNamed name: String) -> [UInt64] {
        let tasks = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
        return tasks.compactMap { task in
            let text = (try? String(contentsOfFile: "/proc/self/task/\(task)/status", encoding: .utf8)) ?? ""
            let lines = text.split(separator: "\n")
            guard lines.first == "Name:\t\(name)", let line = lines.first(where: { $0.hasPrefix("SigBlk:") }) else {
                return nil
            }
            return UInt64(line.split(separator: "\t").last ?? "", radix: 16)
        }
    }

    @Test func engineBlocksAllSignalsExceptFaults() async throws {
        try await withTransport { transport async throws in
            // Once this returns, the thread is running.
            _ = await transport.gauges
            // The C library blocks all signals, also 32 and 33, which it uses itself, while a thread begins, ends or makes
            // another one. Engines of other tests may be doing that.
            let masks = blockedSignals(ofThreadsNamed: "lat-engine").filter { $0 >> 31 & 0b11 == 0 }
            #expect(!masks.isEmpty)
            let unblockable = [SIGKILL, SIGSTOP]
            let faults = [SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP]
            let expected = (1...64).filter { !(unblockable + faults + [32, 33]).contains($0) }
            for mask in masks {
                for signal in expected { #expect(mask >> (UInt64(signal) - 1) & 1 == 1, "signal \(signal)") }
                for signal in faults { #expect(mask >> (UInt64(signal) - 1) & 1 == 0, "signal \(signal)") }
            }
        }
    }

    @Test func callersThreadKeepsItsSignals() throws {
        var before = sigset_t()
        var after = sigset_t()
        pthread_sigmask(SIG_SETMASK, nil, &before)
        _ = try CurlTransport(configuration: testConfiguration())
        pthread_sigmask(SIG_SETMASK, nil, &after)
        for signal in 1...64 { #expect(sigismember(&before, CInt(signal)) == sigismember(&after, CInt(signal))) }
    }
}
