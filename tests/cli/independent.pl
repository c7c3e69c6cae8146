# Computes the figures of a run again, from its samples and by other means than pqshake's: order statistics from sorted
# samples, Student's t from Statistics::Distributions. Reads summary.json's figures and the samples as lines on standard input:
#   trial ARM BLOCK STAT VALUE                       what the summary says of one trial
#   sample ARM BLOCK REQUEST_NS                      one completed connection
#   compared ARM STAT DELTA LO HI DETECTABLE         what it says of arm ARM against arm 0
# Prints every disagreement; exit status 1 when there is one, or nothing to compare.
use strict;
use warnings;
use Statistics::Distributions qw(tdistr);

my (%said, %samples, @compared, $bad);
while (<STDIN>) {
    my ($kind, @f) = split;
    if ($kind eq 'trial') { $said{$f[0]}{$f[1]}{$f[2]} = $f[3] if $f[3] ne 'null' }
    elsif ($kind eq 'sample') { push @{ $samples{$f[0]}{$f[1]} }, $f[2] }
    elsif ($kind eq 'compared') { push @compared, [@f] }
}

sub mean { my $sum = 0; $sum += $_ for @_; $sum / @_ }

sub statistic {
    my ($stat, @x) = @_;
    return mean(@x) if $stat eq 'mean';
    return (sort { $a <=> $b } @x)[-1] if $stat eq 'max';
    my $rank = $stat eq 'p999' ? 0.999 : substr($stat, 1) / 100;
    $rank *= @x;
    my $i = int($rank) == $rank ? $rank : int($rank) + 1;    # the smallest value with at least that many at or below it
    return (sort { $a <=> $b } @x)[$i - 1];
}

sub check {
    my ($what, $got, $want, $tolerance) = @_;
    return if abs($got - $want) <= $tolerance;
    print "$what: the summary says $got, computed again it is $want\n";
    $bad = 1;
}

my $n = 0;
for my $arm (sort keys %samples) {
    for my $block (sort { $a <=> $b } keys %{ $samples{$arm} }) {
        for my $stat (sort keys %{ $said{$arm}{$block} }) {
            my $want = statistic($stat, @{ $samples{$arm}{$block} });
            # A histogram keeps three digits, mean and maximum are exact.
            check("$stat of arm $arm in block $block", $said{$arm}{$block}{$stat}, $want,
                $stat =~ /^p/ ? 0.001 * $want : 0.001);
            $n++;
        }
    }
}
for my $c (@compared) {
    my ($arm, $stat, $delta, $lo, $hi, $detectable) = @$c;
    my @d = map { $said{$arm}{$_}{$stat} - $said{0}{$_}{$stat} } keys %{ $said{$arm} };
    my $m = mean(@d);
    my $s = sqrt(mean(map { ($_ - $m)**2 } @d) * @d / (@d - 1) / @d);
    my ($t, $power) = (tdistr(@d - 1, 0.025), tdistr(@d - 1, 0.2));
    check("delta of $stat", $delta, $m, 0.01);
    # Its critical values have five digits.
    check("lower end of $stat", $lo, $m - $t * $s, 1e-4 * $t * $s + 0.01);
    check("upper end of $stat", $hi, $m + $t * $s, 1e-4 * $t * $s + 0.01);
    check("detectable difference of $stat", $detectable, ($t + $power) * $s, 2e-4 * $t * $s + 0.01);
    $n++;
}
print "nothing to compare\n" unless $n && @compared;
exit($bad || !@compared);
