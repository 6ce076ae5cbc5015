// Writes what the fuzzer starts from into FOLDER/message, FOLDER/record and FOLDER/manifest.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <variant>

#include "schema/checkpoint_format.h"
#include "schema/codec.h"
#include "tests/fuzz/frames.h"
#include "tests/schema/random_message.h"

namespace downpour {
namespace {

void Write(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

void WriteSeeds(const std::filesystem::path& folder) {
  Random random(1);
  for (size_t kind = 0; kind < std::variant_size_v<MessageKinds>; ++kind) {
    const Message message = RandomMessage(kind, random);
    Write(folder / "message" / NameOf(message), JoinFrames(Encode(message)));
  }

  SliceState state;
  state.values = Payload::Zeros(8);
  state.slots = {Payload::Zeros(8)};
  state.finished.InsertRange(0, 3);
  state.counters = {{LeaseId{3}, 2}};
  std::string record;
  for (const Payload& block : EncodeRecord(state)) {
    record.append(reinterpret_cast<const char*>(block.data()), block.size());
  }
  Write(folder / "record" / "small", record);

  Manifest manifest;
  manifest.job = "{}";
  manifest.committed.InsertRange(0, 3);
  manifest.files = {{"ps-0.shard", record.size()}};
  manifest.records = {{SliceId{0}, 0, 0, record.size(), 0}};
  const std::string text = EncodeManifest(manifest);
  Write(folder / "manifest" / "small", text);
  Write(folder / "manifest" / "small_unsealed", text.substr(0, text.find('\n') + 1));
}

}  // namespace
}  // namespace downpour

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: write_seeds FOLDER\n";
    return 2;
  }
  downpour::WriteSeeds(argv[1]);
}
