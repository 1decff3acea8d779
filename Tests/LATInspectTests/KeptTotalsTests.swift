import LATNetworking
import LATTesting
import TestSupport
import Testing

@testable import LATInspect

/// Counters of objects that are released while the metrics go on.
@Suite(.timeLimit(.minutes(2))) struct KeptTotalsTests {
    @Test func totalsDoNotFallWithTheirOwners() {
        final class Owner {}
        var (totals, owners) = (KeptTotals(), [Owner(), Owner()])
        totals.note("sent", 5, of: owners[0])
        totals.note("sent", 7, of: owners[1])
        totals.note("failed", 1, of: owners[1])
        // The first is unreadable, and then gone.
        totals.note("sent", 8, of: owners[1])
        #expect(totals.total("sent") == 13 && totals.total("failed") == 1 && totals.total("other") == 0)
        // Another object at the same address counts from the beginning.
        totals.note("sent", 2, of: owners[1])
        #expect(totals.total("sent") == 15)
        owners = []
        #expect(totals.total("sent") == 15)
    }

    @Test func counterOfAReleasedOutboxStays() async throws {
        let directory = try TemporaryDirectory()
        let manager = try CentralRequestManager.make { $0.transport = Echo() }
        let metrics = Metrics()
        let kept = try Outbox(folder: directory.path(of: "a"), manager: manager)
        metrics.observe(kept)
        do {
            let released = try Outbox(folder: directory.path(of: "b"), manager: manager)
            metrics.observe(released)
            try await released.add(HTTPRequest("POST", "http://a.test/"))
            try await released.waitUntilSent()
            #expect(await metrics.text().contains("lat_client_outbox_sent_total 1\n"))
            await released.close()
        }
        #expect(await metrics.text().contains("lat_client_outbox_sent_total 1\n"))
        await kept.close()
    }
}
