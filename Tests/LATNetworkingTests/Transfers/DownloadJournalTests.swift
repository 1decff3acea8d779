import FoundationEssentials
import HTTPCore
import ResponseCache
import Testing

@testable import LATClient
@testable import LATTransfers

@Suite struct ByteRangesTests {
    @Test func touchingRangesAreJoined() {
        var ranges = ByteRanges([10..<20, 30..<40, 0..<5])
        #expect(ranges.ranges == [0..<5, 10..<20, 30..<40] && ranges.count == 25)
        #expect(ranges.gaps(upTo: 45) == [5..<10, 20..<30, 40..<45] && ranges.gaps(upTo: 15) == [5..<10])
        #expect(ranges.firstMissing == 5)
        ranges.insert(5..<10)
        #expect(ranges.ranges == [0..<20, 30..<40])
        ranges.insert(15..<35)
        #expect(ranges.ranges == [0..<40] && ranges.gaps(upTo: 40).isEmpty)
        ranges.insert(7..<7)
        #expect(ranges.contains(3..<40) && !ranges.contains(3..<41) && ranges.upperBound == 40)
    }

    @Test func insertionOrderDoesNotMatter() {
        for _ in 0..<200 {
            var bytes = Set<Int64>()
            var ranges = ByteRanges()
            for _ in 0..<20 {
                let start = Int64.random(in: 0..<200)
                let range = start..<(start + Int64.random(in: 0..<30))
                bytes.formUnion(range)
                ranges.insert(range)
            }
            #expect(ranges.count == Int64(bytes.count))
            #expect(Set(ranges.ranges.flatMap { Array($0) }) == bytes)
            #expect(zip(ranges.ranges, ranges.ranges.dropFirst()).allSatisfy { $0.upperBound < $1.lowerBound })
        }
    }
}

@Suite struct DownloadJournalTests {
    private var journal: DownloadJournal {
        var journal = DownloadJournal(identity: "https://a.example/x?sig=\"ü\"")
        journal.validator = .entityTag("\"v\\1\"")
        journal.total = 1 << 40
        journal.done = ByteRanges([0..<7, 9..<(1 << 39)])
        journal.fileName = "ä.iso"
        return journal
    }

    @Test func journalRoundTrips() throws {
        #expect(try DownloadJournal(decoding: journal.encoded()) == journal)
        var plain = DownloadJournal(identity: "u")
        plain.validator = .modified("Sun, 06 Nov 1994 08:49:37 GMT")
        #expect(try DownloadJournal(decoding: plain.encoded()) == plain)
        plain.validator = .entityTag("\"v1\"", modified: "Sun, 06 Nov 1994 08:49:37 GMT")
        plain.coding = "gzip"
        #expect(try DownloadJournal(decoding: plain.encoded()) == plain)
    }

    /// Another user may have written the journal, in a folder that many may write to.
    @Test func fileNameLeadsToNoOtherFolder() throws {
        for (name, kept) in [
            ("../../home/a/.ssh/authorized_keys", "authorized_keys"), ("/etc/passwd", "passwd"), ("..", nil),
        ] {
            var journal = journal
            journal.fileName = name
            let decoded = try #require(DownloadJournal(decoding: journal.encoded())).fileName
            #expect(decoded?.contains("/") != true && decoded != ".." && (kept == nil || decoded == kept), "\(name)")
        }
    }

    @Test func changedOrTruncatedJournalIsDetected() throws {
        let data = try journal.encoded()
        for index in stride(from: 0, to: data.count, by: 3) {
            #expect(DownloadJournal(decoding: data.prefix(index)) == nil)
            var changed = data
            changed[index] ^= 1
            #expect(DownloadJournal(decoding: changed) == nil)
        }
        #expect(DownloadJournal(decoding: Data(count: data.count)) == nil)
    }

    @Test func otherFormatVersionIsRefused() throws {
        var text = String(decoding: try journal.encoded(), as: UTF8.self)
        text.replace(" 1 sha256", with: " 2 sha256")
        #expect(text.contains(" 2 sha256") && DownloadJournal(decoding: Data(text.utf8)) == nil)
    }

    @Test func queueRecordRoundTrips() throws {
        let item = DownloadManager.Item(
            id: .init(number: 7), url: "https://a.example/x", path: "/tmp/x", segments: 4, priority: .high,
            state: .paused,
            progress: TransferProgress(direction: .download))
        var options = DownloadOptions()
        options.digest = DownloadDigest(.md5, "d41d8cd98f00b204e9800998ecf8427e")
        options.existingFile = .skip
        let record = DownloadRecord(item, headers: ["X-A": "1", "X-B": "2"], options: options)
        let data = try record.encoded()
        #expect(DownloadRecord(decoding: data) == record && record.item.state == .paused)
        #expect(DownloadRecord(decoding: data.dropLast()) == nil)
    }

    /// What to do about an existing file depends on its name until the caller says it.
    @Test func queueRecordKnowsWhatWasChosen() throws {
        let item = DownloadManager.Item(
            id: .init(number: 7), url: "https://a.example/x", path: "/tmp", segments: 1, priority: .normal,
            state: .waiting, progress: TransferProgress(direction: .download))
        var options = DownloadOptions()
        for chosen in [nil, DownloadOptions.ExistingFile.overwrite, .fail] {
            if let chosen { options.existingFile = chosen }
            let record = DownloadRecord(item, headers: [:], options: options)
            let again = try #require(DownloadRecord(decoding: record.encoded()))
            #expect(again == record && again.options(nil).chosenExistingFile == chosen)
        }
    }
}

@Suite struct DownloadMeterTests {
    @Test func rateFollowsTheSpeedAndDecays() throws {
        var meter = DownloadMeter()
        var reportCount = 0
        for step in 0...100 {
            let completed = Int64(step) * 10_000
            if meter.note(
                completed: completed, total: 2_000_000, received: step == 0 ? 0 : 10_000, at: .milliseconds(10 * step))
                != nil
            {
                reportCount += 1
            }
        }
        // One second at 1 MB/s gives the first value and ten more.
        #expect(reportCount == 11)
        let rate = try #require(meter.progress.bytesPerSecond)
        #expect(abs(rate - 1_000_000) < 20_000)
        let left = try #require(meter.progress.estimatedTimeRemaining)
        #expect(left > .milliseconds(950) && left < .milliseconds(1_050))
        _ = meter.note(completed: 1_000_000, total: 2_000_000, received: 0, at: .seconds(4))
        #expect(try #require(meter.progress.bytesPerSecond) < 0.4 * rate)
        #expect(meter.stop().bytesPerSecond == nil && meter.progress.estimatedTimeRemaining == nil)
    }

    @Test func completedNeverDecreases() {
        var meter = DownloadMeter()
        _ = meter.note(completed: 500, total: 1_000, received: 500, at: .zero)
        #expect(meter.note(completed: 0, total: 800, received: 0, at: .seconds(1))?.completed == 500)
        #expect(meter.stop(completed: 800, total: 800).completed == 800)
    }
}

@Suite struct FileNameTests {
    @Test(arguments: [
        ("attachment; filename=\"a b.iso\"", "a b.iso"), ("attachment; filename=plain.txt; size=3", "plain.txt"),
        ("inline; FileName = \"q\\\"uo\\\\te.txt\"", "te.txt"),
        ("attachment; filename=\"fallback.txt\"; filename*=UTF-8''na%C3%AFve%20file.txt", "naïve file.txt"),
        ("attachment; filename*=ISO-8859-1'en'%A3.txt; filename=x", "£.txt"),
        ("attachment; filename*=UTF-8''%FF; filename=\"good.txt\"", "good.txt"),
        ("attachment; filename*=GBK''%81; filename=\"good.txt\"", "good.txt"),
        ("attachment; filename=\"../../etc/passwd\"", "passwd"), ("attachment; filename=\"C:\\dir\\x.exe\"", "x.exe"),
        ("attachment; filename*=UTF-8''..%2F..%2F.bashrc", "bashrc"), ("attachment; filename=\".hidden\"", "hidden"),
        ("attachment; filename=\"a\u{202E}gpj.exe\"", "agpj.exe"),
        ("attachment; filename=\"a\u{0}\u{1B}b\r\nc\"", "abc"),
        ("attachment; filename=\"x;y.txt\"", "x;y.txt"), ("attachment; filename=\".\u{301}a\"", "\u{301}a"),
        ("attachment; filename=\"../a/\u{301}b\"", "\u{301}b"), ("attachment; filename=\"a\\\u{301}b\"", "\u{301}b"),
    ]) func contentDispositionGivesAName(_ field: String, _ name: String) {
        #expect(FileName.disposition(field) == name)
    }

    @Test(arguments: [
        "attachment", "", "attachment; filename=\"\"", "attachment; filename=\"..\"", "attachment; filename=\"/\"",
        "attachment; filename=\" . . \"", "attachment; file=x",
    ]) func emptyDispositionGivesNoName(_ field: String) {
        #expect(FileName.disposition(field) == nil)
    }

    @Test func urlGivesAName() {
        #expect(FileName.url("https://a.example/x/big%20file.iso?sig=/y#z") == "big file.iso")
        #expect(FileName.url("https://a.example") == "download" && FileName.url("https://a.example/") == "download")
        #expect(FileName.url("https://a.example/..%2f..%2fetc%2fpasswd") == "passwd")
        #expect(
            FileName.url("https://a.example/%2e%2e") == "download" && FileName.url("https://a.example/%zz") == "%zz")
    }

    @Test func longNameIsCutBeforeItsExtension() throws {
        let name = try #require(FileName.sanitized(String(repeating: "ä", count: 300) + ".tar.gz"))
        #expect(name.utf8.count <= FileName.longest && name.hasSuffix(".gz") && name.hasPrefix("ää"))
        // A single character whose combining marks exceed the longest name.
        let marked = try #require(FileName.sanitized("e" + String(repeating: "\u{301}", count: 150)))
        #expect(marked.utf8.count == 199)
        #expect(FileName.sanitized(String(repeating: "a.", count: 150))?.hasSuffix("a") == true)
    }
}
