// This file implements how files of clients are opened on Windows, where requests come from the own process alone.

package daemon

const noFollow = 0
