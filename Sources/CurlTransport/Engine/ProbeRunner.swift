import CLibcurl
internal import HTTPCore
import Platform

/// Runs connection probes on the engine's thread.
final class ProbeRunner {
    private unowned let engine: Engine
    let multi: ServiceMulti
    private var running: [ConnectionProbe] = []

    init(engine: Engine, _ outer: EventQueue) {
        self.engine = engine
        multi = ServiceMulti(outer)
    }

    deinit { end() }

    /// Readable when a probe's socket has an event; -1 when there is none.
    var descriptor: CInt { multi.descriptor }

    /// When libcurl's timer expires.
    var due: MonotonicTime { multi.due }

    func start(_ probe: ConnectionProbe) {
        if probe.isCancelled { return probe.finish(ConnectionReport(error: EngineFailure.cancelled)) }
        let now = MonotonicTime.now
        _ = probe.transfer.machine.submitted(nil, now)
        _ = probe.transfer.machine.started(now)
        guard let handle = EasyHandle(engine: engine, slot: -1, hasLargeBuffer: false) else {
            return probe.finish(ConnectionReport(error: EngineFailure.noResources("memory for a probe")))
        }
        do throws(NetworkError) {
            try handle.prepare(for: probe.transfer)
            try handle.connectOnly(probe.options)
            try multi.add(handle)
        } catch {
            return probe.finish(ConnectionReport(error: error))
        }
        probe.handle = handle
        running.append(probe)
    }

    /// Cancels a probe, possibly before it is started.
    func cancel(_ probe: ConnectionProbe) {
        probe.isCancelled = true
        guard probe.handle != nil else { return }
        remove(probe)
        probe.finish(ConnectionReport(error: EngineFailure.cancelled))
    }

    func turn(_ now: MonotonicTime) {
        multi.turn(now) { curl, result in
            guard let probe = running.first(where: { $0.handle?.curl == curl }), let handle = probe.handle else {
                return
            }
            let report = handle.report(on: probe, result, now)
            remove(probe)
            probe.finish(report)
        }
    }

    /// Ends every probe and closes every descriptor.
    func end() {
        for probe in running {
            remove(probe)
            probe.finish(ConnectionReport(error: EngineFailure.shutDown))
        }
        multi.end()
    }

    private func remove(_ probe: ConnectionProbe) {
        guard let handle = probe.handle else { return }
        probe.handle = nil
        running.removeAll { $0 === probe }
        multi.remove(handle)
    }
}
