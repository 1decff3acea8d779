import BenchmarkSupport
import LATNetworking

/// Runs work on the thread of a manager's engine, for modes that end in `-executor`.
///
/// Only this file uses `manager.executor`, so that a library without it can be measured too; see
/// LAT_BENCH_WITHOUT_EXECUTOR in Package.swift.
func onExecutor(of manager: CentralRequestManager, _ work: @Sendable () async throws -> Void) async throws {
    guard let executor = manager.executor else { throw Failure("this manager has no executor") }
    try await withTaskExecutorPreference(executor) { try await work() }
}
