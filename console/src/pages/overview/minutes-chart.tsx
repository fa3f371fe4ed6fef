import '@mantine/charts/styles.css';
import { BarChart } from '@mantine/charts';

/** Loaded when the overview is shown. The number beside it says the same to readers of the screen. */
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
      // Without it the chart takes the focus, for nothing.
      barChartProps={{ accessibilityLayer: false }}
    />
  );
}
