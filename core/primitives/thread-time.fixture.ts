/** Processor time this thread has had, ms. Unlike the wall clock it stands still while other processes have the processor. */
export function threadMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
