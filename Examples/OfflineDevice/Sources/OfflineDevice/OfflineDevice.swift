import Foundation

/// A device that measures all the time and is online sometimes: it watches whether its station can be reached, keeps its
/// readings in a file until they are sent, waits for the network, and uses the last known settings meanwhile. A restart
/// loses nothing. `sensor | swift run OfflineDevice FOLDER https://station.example.org` takes a number from each line.
/// Without arguments it rehearses against a station of its own, as `scripts/examples` does.
@main
struct OfflineDevice {
    static func main() async {
        do {
            let arguments = Array(CommandLine.arguments.dropFirst())
            if arguments.isEmpty { return try await Rehearsal.run() }
            guard arguments.count == 2 else {
                FileHandle.standardError.write(Data("usage: OfflineDevice FOLDER STATION-URL\n".utf8))
                exit(2)
            }
            let device = try Device(folder: arguments[0], station: arguments[1])
            let work = [Task { await device.watchReadings() }, Task { await device.watchStation() }]
            while let line = readLine() {
                if let celsius = Double(line), celsius.isFinite {
                    try await device.take(celsius)
                } else {
                    FileHandle.standardError.write(Data("this is no temperature: \(line)\n".utf8))
                }
            }
            for task in work { task.cancel() }
            print("\(try await device.unsentCount) readings stay for the next start")
            await device.shutDown()
        } catch {
            FileHandle.standardError.write(Data("OfflineDevice: \(error)\n".utf8))
            exit(1)
        }
    }
}
