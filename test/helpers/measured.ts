/**
 * Takes figures that another load of the machine can spoil, such as a rate compared with the one a moment before. A missing
 * bound shows in every measurement and a load only in some, so the first of three measurements that holds decides.
 */
export async function measured<Figures>(
  measure: () => Promise<Figures>,
  holds: (figures: Figures) => boolean,
): Promise<Figures> {
  for (let retries = 2; retries > 0; retries--) {
    const figures = await measure();
    if (holds(figures)) return figures;
  }
  return await measure();
}
