import LATNetworking
import Testing

@testable import lat

@Suite struct UploadLayoutTests {
    /// Returns the layout of `count` files of 1 MiB, of which `sent` are done and the next is half sent.
    private func layout(_ count: Int, sent: Int) -> UploadLayout {
        let files = (0..<count).map { number in
            TransferProgress.File(
                name: "f", fileName: "file-\(number).bin",
                state: number < sent ? .done : number == sent ? .uploading : .waiting,
                completed: number < sent ? 1 << 20 : number == sent ? 1 << 19 : 0, total: 1 << 20)
        }
        let completed = files.reduce(0) { $0 + $1.completed }
        return UploadLayout(
            progress: TransferProgress(
                direction: .upload, completed: completed, total: Int64(count) << 20, bytesPerSecond: 1_048_576,
                estimatedTimeRemaining: .seconds(Int64(count) - completed >> 20), files: files))
    }

    @Test func oneFileIsOneLine() {
        let lines = layout(1, sent: 0).lines(columns: 80, style: .plain)
        #expect(lines.count == 1 && lines[0].hasPrefix("file-0.bin  ━") && lines[0].contains("50%"))
    }

    @Test func severalFilesHaveALineEachAndATotal() {
        let lines = layout(3, sent: 1).lines(columns: 80, style: .plain)
        #expect(lines.count == 4)
        #expect(lines[0].hasPrefix("✓ file-0.bin  ") && lines[0].contains("100%"))
        #expect(lines[1].hasPrefix("↑ file-1.bin  ") && lines[1].contains("50%"))
        #expect(lines[2].hasPrefix("· file-2.bin  ") && lines[2].contains("0%"))
        #expect(
            lines[3].hasPrefix("  all         ") && lines[3].contains("1.00 MiB/s") && lines[3].contains("2 s left"))
    }

    @Test(arguments: [0, 1, 5, 50, 99, 100])
    func lineCountStaysTheSame(sent: Int) {
        let lines = layout(100, sent: sent).lines(columns: 80, style: .plain)
        #expect(lines.count == 9 && lines[8].contains("all 100"))
        if sent < 100 { #expect(lines.contains { $0.hasPrefix("↑ file-\(sent).bin") }) }
    }

    @Test(arguments: 0...120)
    func noLineIsWiderThanTheTerminal(columns: Int) {
        for line in layout(12, sent: 3).lines(columns: columns, style: .plain) {
            #expect(line.count <= max(2, columns))
        }
    }

    @Test func symbolsAreASCIIWithoutUnicode() {
        let lines = layout(3, sent: 1).lines(columns: 80, style: Style(isColoured: false, isUnicode: false))
        #expect(lines.map { $0.prefix(2) } == ["+ ", "> ", ". ", "  "])
    }
}
