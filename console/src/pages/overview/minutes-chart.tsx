import '@mantine/charts/styles.css';
import { BarChart } from '@mantine/charts';

/** Loaded when the overview is shown. Hidden from screen readers: the number beside it has the content for them. */
export function MinutesChart({ counts }: { readonly counts: readonly number[] }) {
  return (
    <BarChart
      aria-hidden
      h={36}
      data={counts.map((received, minute) => ({ minute, received }))}
      dataKey="minute"
      series={[{ name: 'received', color: 'blue.6' }]}
      withXAxis={false}
      withYAxis={false}
      withTooltip={false}
      gridAxis="none"
      barProps={{ isAnimationActive: false }}
      // Otherwise the chart takes the keyboard focus without an action to offer.
      barChartProps={{ accessibilityLayer: false }}
    />
  );
}
