"""What the kernel offers a keeper: control groups, processes, directory trees and users."""
