#include "cache/store/rocksdb/power_cut_file_system.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

namespace tessera::cache {
namespace {

namespace fs = std::filesystem;
using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

IOStatus Gone() { return IOStatus::IOError("the power is gone"); }

std::string DirectoryOf(const std::string& path) { return fs::path(path).parent_path().string(); }

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void WriteAll(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

bool IsBelow(const std::string& path, const std::string& directory) {
  return path.size() > directory.size() && path.compare(0, directory.size(), directory) == 0 &&
         path[directory.size()] == '/';
}

// Where `path` is after `from` became `to`.
std::string Moved(const std::string& path, const std::string& from, const std::string& to) {
  if (path == from) return to;
  return IsBelow(path, from) ? to + path.substr(from.size()) : path;
}

class PowerCutFile : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  PowerCutFile(std::unique_ptr<rocksdb::FSWritableFile> file, std::string name, PowerCut* cut)
      : FSWritableFileOwnerWrapper(std::move(file)), name_(std::move(name)), cut_(cut) {}

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
    if (!cut_->Take()) return Gone();
    const IOStatus status = FSWritableFileOwnerWrapper::Append(data, options, debug);
    size_ += data.size();
    cut_->Grew(name_, size_);
    return status;
  }
  IOStatus Append(const Slice& data, const IOOptions& options, const rocksdb::DataVerificationInfo&,
                  IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  IOStatus Flush(const IOOptions& options, IODebugContext* debug) override {
    // Into the page cache, as far as a cut is concerned.
    return FSWritableFileOwnerWrapper::Flush(options, debug);
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    if (!cut_->Take()) return Gone();
    const IOStatus status = FSWritableFileOwnerWrapper::Flush(options, debug);
    if (status.ok()) cut_->Synced(name_);
    return status;
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override { return Sync(options, debug); }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    return FSWritableFileOwnerWrapper::Close(options, debug);
  }

 private:
  const std::string name_;
  PowerCut* const cut_;
  uint64_t size_ = 0;
};

class PowerCutDirectory : public rocksdb::FSDirectoryWrapper {
 public:
  PowerCutDirectory(std::unique_ptr<rocksdb::FSDirectory> directory, std::string name, PowerCut* cut)
      : FSDirectoryWrapper(std::move(directory)), name_(std::move(name)), cut_(cut) {}

  IOStatus Fsync(const IOOptions&, IODebugContext*) override {
    if (!cut_->Take()) return Gone();
    cut_->DirectorySynced(name_);
    return IOStatus::OK();
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* debug,
                               const rocksdb::DirFsyncOptions&) override {
    return Fsync(options, debug);
  }

 private:
  const std::string name_;
  PowerCut* const cut_;
};

class PowerCutFileSystem : public rocksdb::FileSystemWrapper {
 public:
  explicit PowerCutFileSystem(PowerCut* cut) : FileSystemWrapper(rocksdb::FileSystem::Default()), cut_(cut) {}
  const char* Name() const override { return "PowerCutFileSystem"; }

  IOStatus NewWritableFile(const std::string& name, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext* debug) override {
    if (!cut_->Take()) return Gone();
    const bool there = fs::exists(name);
    const std::string content = there ? ReadAll(name) : "";
    const IOStatus status = FileSystemWrapper::NewWritableFile(name, options, result, debug);
    if (!status.ok()) return status;
    // Truncating a file is, for a cut, deleting it and creating it again.
    if (there) cut_->Deleted(name, content);
    cut_->Created(name);
    *result = std::make_unique<PowerCutFile>(std::move(*result), name, cut_);
    return status;
  }
  IOStatus ReopenWritableFile(const std::string&, const FileOptions&, std::unique_ptr<rocksdb::FSWritableFile>*,
                              IODebugContext*) override {
    return IOStatus::NotSupported("reopening a file");
  }
  IOStatus ReuseWritableFile(const std::string&, const std::string&, const FileOptions&,
                             std::unique_ptr<rocksdb::FSWritableFile>*, IODebugContext*) override {
    return IOStatus::NotSupported("reusing a file");
  }
  IOStatus NewDirectory(const std::string& name, const IOOptions& options,
                        std::unique_ptr<rocksdb::FSDirectory>* result, IODebugContext* debug) override {
    const IOStatus status = FileSystemWrapper::NewDirectory(name, options, result, debug);
    if (status.ok()) *result = std::make_unique<PowerCutDirectory>(std::move(*result), name, cut_);
    return status;
  }
  IOStatus DeleteFile(const std::string& name, const IOOptions& options, IODebugContext* debug) override {
    if (!cut_->Take()) return Gone();
    const std::string content = ReadAll(name);
    const IOStatus status = FileSystemWrapper::DeleteFile(name, options, debug);
    if (status.ok()) cut_->Deleted(name, content);
    return status;
  }
  IOStatus CreateDir(const std::string& name, const IOOptions& options, IODebugContext* debug) override {
    if (!cut_->Take()) return Gone();
    const IOStatus status = FileSystemWrapper::CreateDir(name, options, debug);
    if (status.ok()) cut_->Created(name);
    return status;
  }
  IOStatus CreateDirIfMissing(const std::string& name, const IOOptions& options, IODebugContext* debug) override {
    if (fs::exists(name)) return IOStatus::OK();
    return CreateDir(name, options, debug);
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* debug) override {
    if (!cut_->Take()) return Gone();
    const bool replaces = fs::is_regular_file(to);
    const std::string replaced = replaces ? ReadAll(to) : "";
    const IOStatus status = FileSystemWrapper::RenameFile(from, to, options, debug);
    if (status.ok()) cut_->Renamed(from, to, replaces, replaced);
    return status;
  }
  IOStatus Truncate(const std::string&, size_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::NotSupported("truncating a file");
  }
  IOStatus LinkFile(const std::string&, const std::string&, const IOOptions&, IODebugContext*) override {
    return IOStatus::NotSupported("linking a file");
  }

 private:
  PowerCut* const cut_;
};

}  // namespace

void PowerCut::Created(const std::string& file) {
  std::lock_guard<std::mutex> lock(mutex_);
  files_.erase(file);
  if (!fs::is_directory(file)) files_[file] = File{};
  changes_.push_back({NameChange::kCreated, DirectoryOf(file), file, "", false, ""});
}

void PowerCut::Grew(const std::string& file, uint64_t size) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = files_.find(file);
  if (found != files_.end()) found->second.written = size;
}

void PowerCut::Synced(const std::string& file) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = files_.find(file);
  if (found != files_.end()) found->second.synced = found->second.written;
}

void PowerCut::Renamed(const std::string& from, const std::string& to, bool replaced_existing, std::string replaced) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::map<std::string, File> moved;
  for (const auto& [path, file] : files_) {
    if (path != to) moved[Moved(path, from, to)] = file;
  }
  files_ = std::move(moved);
  for (NameChange& change : changes_) {
    // What happened below a directory that was renamed now lies below its new name.
    if (IsBelow(change.path, from)) {
      change.path = Moved(change.path, from, to);
      change.directory = Moved(change.directory, from, to);
      if (!change.from.empty()) change.from = Moved(change.from, from, to);
    }
  }
  changes_.push_back({NameChange::kRenamed, DirectoryOf(to), to, from, replaced_existing, std::move(replaced)});
}

void PowerCut::Deleted(const std::string& file, std::string content) {
  std::lock_guard<std::mutex> lock(mutex_);
  // As it would come back: what of it was synced.
  const auto found = files_.find(file);
  if (found != files_.end()) content.resize(std::min<uint64_t>(content.size(), found->second.synced));
  files_.erase(file);
  changes_.push_back({NameChange::kDeleted, DirectoryOf(file), file, "", true, std::move(content)});
}

void PowerCut::DirectorySynced(const std::string& directory) {
  std::lock_guard<std::mutex> lock(mutex_);
  changes_.erase(std::remove_if(changes_.begin(), changes_.end(),
                                [&](const NameChange& change) { return change.directory == directory; }),
                 changes_.end());
}

void PowerCut::Undo(const NameChange& change) {
  std::error_code ignored;
  switch (change.kind) {
    case NameChange::kCreated:
      fs::remove_all(change.path, ignored);
      break;
    case NameChange::kRenamed:
      fs::rename(change.path, change.from, ignored);
      if (change.had_content) WriteAll(change.path, change.content);
      break;
    case NameChange::kDeleted:
      if (!fs::exists(change.path, ignored)) WriteAll(change.path, change.content);
      break;
  }
}

void PowerCut::Lose(std::mt19937* random) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [path, file] : files_) {
    std::error_code error;
    if (file.synced == file.written || !fs::is_regular_file(path, error)) continue;
    const uint64_t unsynced = file.written - file.synced;
    const uint64_t kept = (*random)() % 3 == 0 ? 0 : (*random)() % (unsynced + 1);
    fs::resize_file(path, std::min<uint64_t>(file.synced + kept, fs::file_size(path, error)), error);
    if (kept > 0 && (*random)() % 3 == 0) {
      // The length was written and some of the blocks were not.
      std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
      const uint64_t hole = (*random)() % kept;
      stream.seekp(static_cast<std::streamoff>(file.synced + hole));
      stream << std::string(std::min<uint64_t>(kept - hole, 1 + (*random)() % 4096), '\0');
    }
  }
  // Of the names in each directory a first part of the changes came through, often none.
  std::map<std::string, size_t> changes_in, kept_in;
  for (const NameChange& change : changes_) ++changes_in[change.directory];
  for (const auto& [directory, count] : changes_in) kept_in[directory] = (*random)() % 2 == 0 ? 0 : (*random)() % (count + 1);
  std::vector<const NameChange*> undone;
  for (const NameChange& change : changes_) {
    size_t& kept = kept_in[change.directory];
    if (kept > 0) {
      --kept;
    } else {
      undone.push_back(&change);
    }
  }
  std::reverse(undone.begin(), undone.end());
  for (const NameChange* change : undone) Undo(*change);
  files_.clear();
  changes_.clear();
}

std::shared_ptr<rocksdb::FileSystem> NewPowerCutFileSystem(PowerCut* cut) {
  return std::make_shared<PowerCutFileSystem>(cut);
}

}  // namespace tessera::cache
