import '@mantine/charts/styles.css';
import { Sparkline } from '@mantine/charts';

/** Loaded when the overview is shown. */
export function MinutesChart({ counts }: { readonly counts: readonly number[] }) {
  return (
    <Sparkline
      aria-hidden
      h={36}
      data={[...counts]}
      color="blue.6"
      fillOpacity={0.4}
      strokeWidth={1.5}
      areaProps={{ isAnimationActive: false }}
    />
  );
}
